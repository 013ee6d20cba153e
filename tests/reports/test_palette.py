"""Colours are legible, and told apart whatever colours their reader sees."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hypar.reports.page.css import ON_FORWARD
from hypar.reports.palette import DIMS, PAGE, TIMES, colours_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Machado, Oliveira, Fernandes (IEEE TVCG 15, 2009), severity 1.0, on linear RGB.
SIGHTS = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}

# Ottosson, "A perceptual color space for image processing" (2020).
TO_CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
TO_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def linear(colour: str) -> NDArray[np.float64]:
    """Linear RGB of a colour of sRGB, by IEC 61966-2-1."""
    coded = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(coded <= 0.04045, coded / 12.92, ((coded + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """The contrast ratio of WCAG 2.2."""
    low, high = sorted(float(np.array([0.2126, 0.7152, 0.0722]) @ linear(colour)) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def distance(one: str, other: str, sight: str) -> float:
    """A hundred times the distance in OKLab, as an eye sees both."""

    def seen(colour: str) -> NDArray[np.float64]:
        return np.asarray(TO_LAB @ np.cbrt(TO_CONES @ np.clip(SIGHTS[sight] @ linear(colour), 0, 1)))

    return 100 * float(np.linalg.norm(seen(one) - seen(other)))


@pytest.mark.parametrize("page", ["light", "dark"])
def test_texts_and_marks_are_legible(page: str) -> None:
    ground = getattr(PAGE["ground"], page)
    for colours in DIMS.values():
        assert contrast(getattr(colours, page), getattr(colours, f"{page}_text")) >= 4.5
    for name in ("ink", "muted"):
        assert contrast(getattr(PAGE[name], page), ground) >= 4.5
        assert contrast(getattr(PAGE[name], page), getattr(PAGE["surface"], page)) >= 4.5
    for shades in (*TIMES.values(), PAGE["rule"]):
        assert contrast(getattr(shades, page), ground) >= 3


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize(("page", "least"), [("light", 9), ("dark", 6)])
def test_dims_are_told_apart(page: str, least: float, sight: str) -> None:
    colours = [getattr(dim, page) for dim in DIMS.values()]
    assert min(distance(*pair, sight) for pair in combinations(colours, 2)) > least


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("page", ["light", "dark"])
def test_kinds_of_time_are_told_apart(page: str, sight: str) -> None:
    colours = [getattr(kind, page) for kind in TIMES.values()]
    assert min(distance(*pair, sight) for pair in combinations(colours, 2)) > 9


def test_a_join_has_the_colours_of_in_channels_and_no_dim_those_of_a_whole_layer() -> None:
    assert colours_of("channels") == DIMS["in_channels"]
    assert colours_of(None) == colours_of("whole") == DIMS["whole"]


def test_a_dim_that_a_model_names_has_the_colours_of_the_one_that_it_is_like() -> None:
    assert colours_of("sequence") == DIMS["height"]
    assert colours_of("in_hidden") == DIMS["in_channels"]


@pytest.mark.parametrize("page", ["light", "dark"])
def test_texts_on_boxes_of_a_timeline_are_legible(page: str) -> None:
    text = getattr(DIMS[ON_FORWARD], f"{page}_text")
    assert contrast(getattr(TIMES["forward"], page), text) >= 4.5
    assert contrast(getattr(TIMES["backward"], page), getattr(PAGE["ground"], page)) >= 4.5
