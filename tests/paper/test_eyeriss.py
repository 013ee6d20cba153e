"""Eyeriss (JSSC 2017), Tables V and VI, on the chip of 12 x 14 elements; ISCA 2016, Figure 10; TETRIS' two ratios."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hypar import load_model
from hypar.studies.sections.eyeriss.arrays import isca_energies, tetris_ratios
from hypar.studies.sections.eyeriss.runs import (
    chip_milliwatts,
    forward,
    megabytes,
    milliseconds,
    roof_milliseconds,
)

if TYPE_CHECKING:
    from _pytest.mark.structures import ParameterSet

    from hypar.machine.machine import LayerTime

BATCH = 4
ACTIVE = {"conv1": 154, "conv2": 135, "conv3": 156, "conv4": 156, "conv5": 156}
MILLISECONDS = {"conv1": 16.5, "conv2": 39.2, "conv3": 21.8, "conv4": 16.0, "conv5": 10.0}
BUFFER_MB = {"conv1": 18.5, "conv2": 77.6, "conv3": 50.2, "conv4": 37.4, "conv5": 24.9}
MEMORY_MB = {"conv1": 5.0, "conv2": 4.0, "conv3": 3.0, "conv4": 2.1, "conv5": 1.3}
MILLIWATTS = {"conv1": 332, "conv2": 288, "conv3": 266, "conv4": 235, "conv5": 236}
"""Table V, columns of active processing elements, processing latency, buffer and DRAM accesses, and power."""

VGG_ACTIVE = {"conv1_2": 156, "conv3_1": 156, "conv4_2": 168, "conv5_1": 168}
VGG_MILLISECONDS = {"conv1_2": 810.6, "conv3_1": 204.0, "conv4_2": 210.0, "conv5_1": 48.3}
VGG_BUFFER_MB = {"conv1_2": 2402.8, "conv3_1": 607.4, "conv4_2": 643.7, "conv5_1": 90.0}
VGG_MEMORY_MB = {"conv1_2": 54.0, "conv3_1": 20.2, "conv4_2": 28.6, "conv5_1": 6.3}
"""Table VI, the same columns."""

FIGURE_10 = {
    "conv1": (1.69, 2.46, 6.75),
    "conv2": (3.58, 2.27, 14.33),
    "conv3": (2.39, 2.02, 9.57),
    "conv4": (1.79, 1.57, 7.18),
    "conv5": (1.20, 1.05, 4.78),
    "fc1": (0.60, 7.78, 2.42),
    "fc2": (0.27, 3.39, 1.07),
    "fc3": (0.07, 0.84, 0.26),
}

LAYERS = {layer.name: layer for layer in load_model("alexnet-2012").layers}


def on_chip(name: str) -> LayerTime:
    return forward("eyeriss", "alexnet-2012", BATCH)[name]


def vgg16(name: str) -> LayerTime:
    return forward("eyeriss", "vgg16", 3)[name]


def missing(rows: dict[str, float], misses: set[str], reason: str) -> list[ParameterSet]:
    """The rows of a column, those that miss with the reason."""
    return [
        pytest.param(
            name, number, marks=[pytest.mark.xfail(strict=True, reason=reason)] if name in misses else []
        )
        for name, number in rows.items()
    ]


@pytest.mark.parametrize(("name", "published"), ACTIVE.items())
def test_table_v_active_elements(name: str, published: int) -> None:
    assert on_chip(name).work["forward"].mapping["active"] == published


@pytest.mark.parametrize(("name", "published"), MILLISECONDS.items())
def test_table_v_times(name: str, published: float) -> None:
    assert milliseconds(on_chip(name)) == pytest.approx(published, rel=0.10)


def test_table_v_total_time() -> None:
    ours = sum(milliseconds(on_chip(name)) for name in MILLISECONDS)
    assert ours == pytest.approx(sum(MILLISECONDS.values()), rel=0.01)


@pytest.mark.parametrize(("name", "published"), BUFFER_MB.items())
def test_table_v_words_of_the_buffer(name: str, published: float) -> None:
    assert megabytes(on_chip(name), "buffer") == pytest.approx(published, rel=0.02)


@pytest.mark.parametrize(
    ("name", "published"),
    missing(MEMORY_MB, set(MEMORY_MB), "the chip compresses zeros, by 1.2 to 2.0 times"),
)
def test_table_v_words_of_dram(name: str, published: float) -> None:
    assert megabytes(on_chip(name), "memory") == pytest.approx(published, rel=0.10)


@pytest.mark.parametrize(
    ("name", "published"),
    missing(
        dict(MILLIWATTS),
        {"conv1", "conv2", "conv4", "conv5"},
        "energies are TETRIS'; the clock is not counted, nor the arithmetic that zeros save",
    ),
)
def test_table_v_power(name: str, published: float) -> None:
    assert chip_milliwatts("eyeriss", on_chip(name)) == pytest.approx(published, rel=0.10)


def test_conv1_is_two_sets_of_11_by_7_as_on_the_chip() -> None:
    """One set of 11 x 14 is as fast, but moves more words from memory."""
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
    # Eight pieces of 7 columns hold 56 rows, of which the image has 55.
    filled = 55 / 56 if name == "conv1" else 1
    assert work.mapping["utilisation"] == pytest.approx(ACTIVE[name] / 168 * filled)


@pytest.mark.parametrize(("name", "published"), VGG_ACTIVE.items())
def test_table_vi_active_elements(name: str, published: int) -> None:
    assert vgg16(name).work["forward"].mapping["active"] == published


@pytest.mark.parametrize(("name", "published"), VGG_MILLISECONDS.items())
def test_table_vi_times(name: str, published: float) -> None:
    assert milliseconds(vgg16(name)) == pytest.approx(published, rel=0.15)


def test_table_vi_passes() -> None:
    """Channels of a pass, which the chip's words show: as many rows of F_in as fit a bank."""
    found = {name: vgg16(name).work["forward"].mapping for name in VGG_ACTIVE}
    channels = {name: own["channels"] * own["side_channels"] for name, own in found.items()}
    assert channels == {"conv1_2": 1, "conv3_1": 2, "conv4_2": 4, "conv5_1": 8}


def test_table_vi_words_are_in_proportion_to_the_channels_that_are_added_up() -> None:
    """Rows of one table: conv1_1 has 3 channels and conv1_2 64; conv2_1 has half of those of conv2_2, and conv3_1 of conv3_2."""
    words = {name: megabytes(time, "buffer") for name, time in forward("eyeriss", "vgg16", 3).items()}
    assert words["conv1_1"] == pytest.approx(words["conv1_2"] * 3 / 64)
    assert words["conv2_1"] == pytest.approx(words["conv2_2"] / 2)
    assert words["conv3_1"] == pytest.approx(words["conv3_2"] / 2)
    assert words["conv1_2"] == pytest.approx(words["conv2_2"], rel=0.02)


def test_table_vi_total_time() -> None:
    layers = forward("eyeriss", "vgg16", 3)
    ours = sum(milliseconds(time) for name, time in layers.items() if name.startswith("conv"))
    assert ours == pytest.approx(3755, rel=0.15)


@pytest.mark.parametrize(("name", "published"), VGG_MILLISECONDS.items())
def test_table_vi_times_of_the_chips_own_words(name: str, published: float) -> None:
    """The second roof by itself, with words that the chip counted."""
    ours = roof_milliseconds("eyeriss", vgg16(name), VGG_BUFFER_MB[name])
    assert ours == pytest.approx(published, rel=0.05)


@pytest.mark.parametrize(("name", "published"), VGG_BUFFER_MB.items())
def test_table_vi_words_of_the_buffer(name: str, published: float) -> None:
    assert megabytes(vgg16(name), "buffer") == pytest.approx(published, rel=0.15)


@pytest.mark.parametrize(
    ("name", "published"),
    missing(VGG_MEMORY_MB, set(VGG_MEMORY_MB), "the chip compresses zeros, by 1.3 to 2.1 times"),
)
def test_table_vi_words_of_dram(name: str, published: float) -> None:
    assert megabytes(vgg16(name), "memory") == pytest.approx(published, rel=0.15)


@pytest.mark.parametrize("name", FIGURE_10)
def test_isca_figure_10(name: str) -> None:
    """Energy of arithmetic, DRAM and registers; the unit of the last digit where that is more than a tenth."""
    for ours, published in zip(isca_energies()[name], FIGURE_10[name], strict=True):
        assert ours == pytest.approx(published, rel=0.10, abs=0.005)


def test_tetris_speed_is_in_proportion_to_the_elements() -> None:
    elements, speed, _ = tetris_ratios()
    assert elements == pytest.approx(16 * 14 * 14 / 16**2)
    assert speed == pytest.approx(elements, rel=0.20)


def test_tetris_takes_about_30_percent_less_energy() -> None:
    assert tetris_ratios()[2] == pytest.approx(0.70, abs=0.03)
