"""Run-length coded feature maps, beside a coder of random ones."""

from __future__ import annotations

import random

import pytest

from hypar.machine.compute_models.blocked_row_stationary import run_length_words


def coded_words(elements: list[bool]) -> float:
    """Words of 16 bits of a map, an element being true unless it is zero: three pairs in 64 bits."""
    pairs, run = 0, 0
    for element in elements:
        if element or run == 31:
            pairs, run = pairs + 1, 0
        else:
            run += 1
    return -(-(pairs + (run > 0)) // 3) * 64 / 16


@pytest.mark.parametrize("zeros", [0.0, 0.016, 0.387, 0.793, 0.9, 0.97, 1.0])
def test_words_are_those_of_a_coder(zeros: float) -> None:
    draw = random.Random(1)
    elements = [draw.random() >= zeros for _ in range(200_000)]
    assert run_length_words(zeros) == pytest.approx(coded_words(elements) / len(elements), rel=0.02)


@pytest.mark.parametrize("side", [7, 14])
@pytest.mark.parametrize("zeros", [0.1, 0.387, 0.793, 0.9])
def test_a_code_of_a_channel_ends_in_a_word_that_may_have_room(zeros: float, side: int) -> None:
    draw, maps = random.Random(2), 600
    words = sum(coded_words([draw.random() >= zeros for _ in range(side**2)]) for _ in range(maps))
    mean = words / maps / side**2
    assert run_length_words(zeros, side**2) == pytest.approx(mean, rel=0.02)
    assert (mean - run_length_words(zeros)) * side**2 > 1


def test_a_map_whose_zeros_are_not_known_is_not_coded() -> None:
    assert run_length_words(None) == 1
    assert run_length_words(0.25) == pytest.approx(1)
    assert run_length_words(0.0) == pytest.approx(4 / 3)
