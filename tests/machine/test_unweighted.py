"""Times of layers that only move words: an embedding, and the dispatch of positions to experts."""

from __future__ import annotations

import pytest

from hypar.machine.load import load_machine
from tests.transformers import mixtral


@pytest.mark.parametrize(
    ("name", "words"), [("h.0.dispatch", 4 * (8 * 16 + 4 * 4 * 16)), ("wte", 4 * (8 + 8 * 16) + 24 * 16)]
)
def test_a_layer_that_multiplies_nothing_moves_its_words(name: str, words: int) -> None:
    machine = load_machine("p100-4x4")
    nest = next(layer.nest for layer in mixtral().contracted.layers if layer.name == name)
    time = machine.layer_time(nest, (1,) * len(nest.counted), 4)
    assert time.seconds["forward"] == pytest.approx(machine.memory_seconds(4 * words))
    assert (time.seconds["gradient"] > 0) is bool(nest.weight)
