"""Eyeriss (JSSC 2017), Table V: the convolutions of AlexNet, four samples, on the chip of 12 x 14 elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hypar import load_model
from hypar.machine.load import load_machine
from hypar.sharding.dims import CUTTABLE

if TYPE_CHECKING:
    from hypar.machine.machine import LayerTime

BATCH = 4
WORD_BYTES = 2
WHOLE = (1,) * len(CUTTABLE)
ACTIVE = {"conv1": 154, "conv2": 135, "conv3": 156, "conv4": 156, "conv5": 156}
MILLISECONDS = {"conv1": 16.5, "conv2": 39.2, "conv3": 21.8, "conv4": 16.0, "conv5": 10.0}
"""Table V, columns of active processing elements and of processing latency."""

CHIP = load_machine("eyeriss")
LAYERS = {layer.name: layer for layer in load_model("alexnet-2012").layers}


def on_chip(name: str) -> LayerTime:
    return CHIP.layer_time(LAYERS[name].einsum(BATCH), WHOLE, WORD_BYTES)


def milliseconds(name: str) -> float:
    """Arithmetic alone: the file of the chip says nothing of its memory."""
    return on_chip(name).seconds["forward"] * 1e3


@pytest.mark.parametrize(("name", "published"), ACTIVE.items())
def test_table_v_active_elements(name: str, published: int) -> None:
    assert on_chip(name).work["forward"].mapping["active"] == published


@pytest.mark.parametrize(("name", "published"), MILLISECONDS.items())
def test_table_v_times(name: str, published: float) -> None:
    assert milliseconds(name) == pytest.approx(published, rel=0.15)


def test_table_v_total_time() -> None:
    assert sum(map(milliseconds, MILLISECONDS)) == pytest.approx(sum(MILLISECONDS.values()), rel=0.10)


def test_conv1_is_two_sets_of_11_by_7_as_on_the_chip() -> None:
    """JSSC 2017, section V: 11 x 14 elements would be as fast, but the words from memory would be more."""
    mapping = on_chip("conv1").work["forward"].mapping
    assert (mapping["kernel_rows"], mapping["columns"], mapping["sets"]) == (11, 7, 2)
    assert (mapping["filters"], mapping["side_filters"], mapping["tile_filters"]) == (16, 2, 96)


@pytest.mark.parametrize(
    ("name", "rows", "columns", "sets"), [("conv2", 5, 27, 1), ("conv3", 3, 13, 4), ("conv5", 3, 13, 4)]
)
def test_sets_of_the_other_layers(name: str, rows: int, columns: int, sets: int) -> None:
    """CONV2's set is wider than the array and stands in two bands of five rows, 14 and 13 columns wide."""
    mapping = on_chip(name).work["forward"].mapping
    assert (mapping["kernel_rows"], mapping["columns"], mapping["sets"]) == (rows, columns, sets)
    assert mapping["folds"] == mapping["kernel_folds"] == 1


@pytest.mark.parametrize("name", ACTIVE)
def test_utilisation_follows_from_the_shapes(name: str) -> None:
    """What a phase multiplies over what the array could meanwhile."""
    work = on_chip(name).work["forward"]
    macs = LAYERS[name].einsum(BATCH).macs
    cycles = work.seconds * 200e6
    assert work.mapping["cycles"] == pytest.approx(cycles)
    assert work.mapping["utilisation"] == pytest.approx(macs / (cycles * 12 * 14))
    # Four pieces of 14 columns hold 56 rows, of which the image has 55.
    filled = 55 / 56 if name == "conv1" else 1
    assert work.mapping["utilisation"] == pytest.approx(ACTIVE[name] / 168 * filled)
