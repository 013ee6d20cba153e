"""Eyeriss (JSSC 2017), Tables V and VI: what the paper says of mappings, words and powers besides the rows of its page."""

import eyeriss_2017 as eyeriss
import pytest

from hypar import load_model

CHIP = eyeriss.forward("eyeriss", "alexnet-2012", 4)
VGG16 = eyeriss.forward("eyeriss", "vgg16", 3)


def test_powers_of_table_v_are_met_in_the_mean() -> None:
    """The one number that is fitted to them is the power at rest."""
    ours = {name: sum(eyeriss.milliwatts(row).values()) for name, row in CHIP.items()}
    published = {"conv1": 332, "conv2": 288, "conv3": 266, "conv4": 235, "conv5": 236}
    assert sum(ours[name] / chip for name, chip in published.items()) / 5 == pytest.approx(1, abs=0.005)


def test_where_the_power_goes() -> None:
    """Arithmetic less than 10 percent, registers, network and buffer up to 45, and the clock more than each other part."""
    for _, arithmetic, moving, clock in eyeriss.power()["rows"]:
        assert arithmetic < 10
        assert moving < 45
        assert clock > max(arithmetic, moving)
    assert eyeriss.power()["saving"] == pytest.approx(0.45, abs=0.015)


def words(elements: int, zeros: float, plane: int) -> float:
    """Words of a feature map, each of its planes a code of three pairs in 64 bits, which ends with two pairs of zeros or room."""
    pairs = (1 - zeros) / (1 - zeros**32)
    return 4 / 3 * (elements * pairs + elements / plane * (2 - pairs))


def test_zeros_of_outputs() -> None:
    """Those of conv1 and conv5 follow from what coding saves, each feature map moved once."""
    written = {name: own["output_zeros"] or 0.0 for name, own in eyeriss.coded("alexnet-2012").items()}
    image, conv1, conv4, conv5 = 3 * 227**2, 96 * 55**2, 384 * 13**2, 256 * 13**2
    assert image + words(conv1, written["conv1"], 55**2) == pytest.approx(0.70 * (image + conv1))
    left = words(conv4, 0.776, 13**2) + words(conv5, written["conv5"], 13**2)
    assert left == pytest.approx(0.25 * (conv4 + conv5), rel=0.01)
    assert [written[name] for name in ("conv2", "conv3", "conv4")] == [0.725, 0.793, 0.776]


@pytest.mark.parametrize(
    ("name", "rows", "columns", "sets"),
    [("conv1", 11, 7, 2), ("conv2", 5, 27, 1), ("conv3", 3, 13, 4), ("conv5", 3, 13, 4)],
)
def test_sets_of_table_v(name: str, rows: int, columns: int, sets: int) -> None:
    """CONV1 stands in two sets of 11 x 7; CONV2's set is wider than the array, in two bands 14 and 13 columns wide."""
    mapping = CHIP[name]["mapping"]
    assert (mapping["kernel_rows"], mapping["columns"], mapping["sets"]) == (rows, columns, sets)
    assert (mapping["folds"], mapping["kernel_folds"]) == (8 if name == "conv1" else 1, 1)


@pytest.mark.parametrize("name", CHIP)
def test_utilisation_follows_from_the_shapes(name: str) -> None:
    """What a phase multiplies over what the array could meanwhile; eight pieces of 7 columns hold 56 rows of conv1's 55."""
    mapping, filled = CHIP[name]["mapping"], 55 / 56 if name == "conv1" else 1
    layer = next(layer for layer in load_model("alexnet-2012").layers if layer.name == name)
    assert mapping["utilisation"] == pytest.approx(layer.macs(4) / (mapping["cycles"] * 12 * 14))
    assert mapping["utilisation"] == pytest.approx(mapping["active"] / 168 * filled)


def test_table_vi_passes() -> None:
    """Channels of a pass, which the chip's words show: as many rows of F_in as fit a bank."""
    found = {name: row["mapping"] for name, row in VGG16.items()}
    channels = {name: own["channels"] * own["side_channels"] for name, own in found.items()}
    for stage, expected in {"conv1": 1, "conv2": 1, "conv3": 2, "conv4": 4, "conv5": 8}.items():
        assert {count for name, count in channels.items() if name.startswith(stage)} == {expected}


def test_table_vi_words_are_in_proportion_to_the_channels_that_are_added_up() -> None:
    """Rows of one table: conv1_1 has 3 channels and conv1_2 64; conv2_1 has half of those of conv2_2, and conv3_1 of conv3_2."""
    moved = {name: row["accesses"]["buffer"] for name, row in VGG16.items()}
    assert moved["conv1_1"] == pytest.approx(moved["conv1_2"] * 3 / 64)
    assert moved["conv2_1"] == pytest.approx(moved["conv2_2"] / 2)
    assert moved["conv3_1"] == pytest.approx(moved["conv3_2"] / 2)
    assert moved["conv1_2"] == moved["conv2_2"]
