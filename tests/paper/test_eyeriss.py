"""Eyeriss (JSSC 2017), Tables V and VI, on the chip of 12 x 14 elements; ISCA 2016, Figure 10; TETRIS' two ratios."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hypar import load_model
from hypar.studies.sections.eyeriss.arrays import isca_energies, tetris_ratios
from hypar.studies.sections.eyeriss.published import ALEXNET, VGG16
from hypar.studies.sections.eyeriss.runs import (
    element_saving,
    megabytes,
    milliseconds,
    milliwatts,
    on_chip,
    zeros_written,
)

if TYPE_CHECKING:
    from hypar.machine.machine import LayerTime

BATCH = 4
ACTIVE = {"conv1": 154, "conv2": 135, "conv3": 156, "conv4": 156, "conv5": 156}
MILLISECONDS = {"conv1": 16.5, "conv2": 39.2, "conv3": 21.8, "conv4": 16.0, "conv5": 10.0}
BUFFER_MB = {"conv1": 18.5, "conv2": 77.6, "conv3": 50.2, "conv4": 37.4, "conv5": 24.9}
MEMORY_MB = {"conv1": 5.0, "conv2": 4.0, "conv3": 3.0, "conv4": 2.1, "conv5": 1.3}
MILLIWATTS = {"conv1": 332, "conv2": 288, "conv3": 266, "conv4": 235, "conv5": 236}
"""Table V, columns of active processing elements, processing latency, buffer and DRAM accesses, and power."""

VGG = [
    ("conv1_1", 156, 38.0, 112.6, 15.4, 247),
    ("conv1_2", 156, 810.6, 2402.8, 54.0, 218),
    ("conv2_1", 156, 405.3, 1201.4, 33.4, 242),
    ("conv2_2", 156, 810.8, 2402.8, 48.5, 231),
    ("conv3_1", 156, 204.0, 607.4, 20.2, 254),
    ("conv3_2", 156, 408.1, 1214.8, 32.2, 235),
    ("conv3_3", 156, 408.1, 1214.8, 30.8, 233),
    ("conv4_1", 168, 105.1, 321.8, 17.8, 278),
    ("conv4_2", 168, 210.0, 643.7, 28.6, 261),
    ("conv4_3", 168, 210.0, 643.7, 22.8, 240),
    ("conv5_1", 168, 48.3, 90.0, 6.3, 258),
    ("conv5_2", 168, 48.5, 90.0, 5.7, 236),
    ("conv5_3", 168, 48.5, 90.0, 5.6, 230),
]
"""Table VI, the same columns."""

VGG_ACTIVE, VGG_MILLISECONDS, VGG_BUFFER_MB, VGG_MEMORY_MB, VGG_MILLIWATTS = (
    {str(row[0]): float(row[column]) for row in VGG} for column in range(1, 6)
)

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


def alexnet(name: str) -> LayerTime:
    return on_chip("alexnet-2012")[name]


def vgg16(name: str) -> LayerTime:
    return on_chip("vgg16")[name]


@pytest.mark.parametrize(("name", "published"), ACTIVE.items())
def test_table_v_active_elements(name: str, published: int) -> None:
    assert alexnet(name).work["forward"].mapping["active"] == published


@pytest.mark.parametrize(("name", "published"), MILLISECONDS.items())
def test_table_v_times(name: str, published: float) -> None:
    assert milliseconds(alexnet(name)) == pytest.approx(published, rel=0.10)


def test_table_v_total_time() -> None:
    ours = sum(milliseconds(alexnet(name)) for name in MILLISECONDS)
    assert ours == pytest.approx(sum(MILLISECONDS.values()), rel=0.01)


@pytest.mark.parametrize(("name", "published"), BUFFER_MB.items())
def test_table_v_words_of_the_buffer(name: str, published: float) -> None:
    assert megabytes(alexnet(name), "buffer") == pytest.approx(published, rel=0.02)


@pytest.mark.parametrize(("name", "published"), MEMORY_MB.items())
def test_table_v_words_of_dram(name: str, published: float) -> None:
    assert megabytes(alexnet(name), "memory") == pytest.approx(published, rel=0.10)


@pytest.mark.parametrize(("name", "published"), MILLIWATTS.items())
def test_table_v_power(name: str, published: float) -> None:
    assert sum(milliwatts(alexnet(name)).values()) == pytest.approx(published, rel=0.10)


def test_powers_of_table_v_are_met_in_the_mean() -> None:
    """The one number that is fitted to them is the power at rest."""
    ratios = [sum(milliwatts(alexnet(name)).values()) / chip for name, chip in MILLIWATTS.items()]
    assert sum(ratios) / len(ratios) == pytest.approx(1, abs=0.005)


def test_where_the_power_goes() -> None:
    """Arithmetic less than 10 percent, registers, network and buffer up to 45, and the clock more than each other part."""
    for name in MILLIWATTS:
        parts = milliwatts(alexnet(name))
        total = sum(parts.values())
        assert parts["arithmetic"] < 0.10 * total
        assert parts["registers"] + parts["array"] + parts["buffer"] < 0.45 * total
        assert parts["static"] == max(parts.values())


def test_an_element_saves_45_percent_while_its_input_is_zero() -> None:
    assert element_saving() == pytest.approx(0.45, abs=0.015)


def coded(elements: int, zeros: float, plane: int) -> float:
    """Words of a feature map, each of its planes a code of three pairs in 64 bits, which ends with two pairs of zeros or room."""
    pairs = (1 - zeros) / (1 - zeros**32)
    return 4 / 3 * (elements * pairs + elements / plane * (2 - pairs))


def test_zeros_of_outputs() -> None:
    """Those of conv1 and conv5 follow from what coding saves, each feature map moved once."""
    written = zeros_written(ALEXNET)
    image, conv1, conv4, conv5 = 3 * 227**2, 96 * 55**2, 384 * 13**2, 256 * 13**2
    left = image + coded(conv1, written["conv1"], 55**2)
    assert left == pytest.approx(0.70 * (image + conv1))
    left = coded(conv4, 0.776, 13**2) + coded(conv5, written["conv5"], 13**2)
    assert left == pytest.approx(0.25 * (conv4 + conv5), rel=0.01)
    assert [written[name] for name in ("conv2", "conv3", "conv4")] == [0.725, 0.793, 0.776]
    assert zeros_written(VGG16)["conv1_2"] == 0.248


def test_conv1_is_two_sets_of_11_by_7_as_on_the_chip() -> None:
    """One set of 11 x 14 is as fast, but moves more words from memory."""
    mapping = alexnet("conv1").work["forward"].mapping
    assert (mapping["kernel_rows"], mapping["columns"], mapping["sets"]) == (11, 7, 2)
    assert (mapping["filters"], mapping["side_filters"], mapping["tile_filters"]) == (16, 2, 96)


@pytest.mark.parametrize(
    ("name", "rows", "columns", "sets"), [("conv2", 5, 27, 1), ("conv3", 3, 13, 4), ("conv5", 3, 13, 4)]
)
def test_sets_of_the_other_layers(name: str, rows: int, columns: int, sets: int) -> None:
    """CONV2's set is wider than the array and stands in two bands of five rows, 14 and 13 columns wide."""
    mapping = alexnet(name).work["forward"].mapping
    assert (mapping["kernel_rows"], mapping["columns"], mapping["sets"]) == (rows, columns, sets)
    assert mapping["folds"] == mapping["kernel_folds"] == 1


@pytest.mark.parametrize("name", ACTIVE)
def test_utilisation_follows_from_the_shapes(name: str) -> None:
    """What a phase multiplies over what the array could meanwhile."""
    work = alexnet(name).work["forward"]
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
    for stage, expected in {"conv1": 1, "conv2": 1, "conv3": 2, "conv4": 4, "conv5": 8}.items():
        assert {count for name, count in channels.items() if name.startswith(stage)} == {expected}


def test_table_vi_words_are_in_proportion_to_the_channels_that_are_added_up() -> None:
    """Rows of one table: conv1_1 has 3 channels and conv1_2 64; conv2_1 has half of those of conv2_2, and conv3_1 of conv3_2."""
    words = {name: megabytes(time, "buffer") for name, time in on_chip("vgg16").items()}
    assert words["conv1_1"] == pytest.approx(words["conv1_2"] * 3 / 64)
    assert words["conv2_1"] == pytest.approx(words["conv2_2"] / 2)
    assert words["conv3_1"] == pytest.approx(words["conv3_2"] / 2)
    assert words["conv1_2"] == words["conv2_2"]


def test_table_vi_total_time() -> None:
    assert sum(map(milliseconds, on_chip("vgg16").values())) == pytest.approx(3755.2, rel=0.05)


@pytest.mark.parametrize(("name", "published"), VGG_BUFFER_MB.items())
def test_table_vi_words_of_the_buffer(name: str, published: float) -> None:
    assert megabytes(vgg16(name), "buffer") == pytest.approx(published, rel=0.15)


@pytest.mark.parametrize(("name", "published"), VGG_MEMORY_MB.items())
def test_table_vi_words_of_dram(name: str, published: float) -> None:
    assert megabytes(vgg16(name), "memory") == pytest.approx(published, rel=0.15)


@pytest.mark.parametrize(("name", "published"), VGG_MILLIWATTS.items())
def test_table_vi_power(name: str, published: float) -> None:
    """No row of this column is fitted: the power of the clock is fitted on AlexNet alone."""
    assert sum(milliwatts(vgg16(name)).values()) == pytest.approx(published, rel=0.15)


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
