"""Published numbers of the Eyeriss chip, of ISCA 2016 and of TETRIS; no computation of ours reads them."""

from __future__ import annotations

from typing import NamedTuple


class OnChip(NamedTuple):
    """A layer on the chip, at 200 MHz.

    Attributes:
        active: active processing elements.
        milliseconds: processing time.
        buffer_mb: words between buffer and array, in MB.
        memory_mb: words between the chip and its DRAM, compressed, in MB.
        milliwatts: power of the chip.
        zeros: fraction of zeros in what the layer reads.
    """

    active: int
    milliseconds: float
    buffer_mb: float
    memory_mb: float
    milliwatts: float
    zeros: float


ALEXNET_BATCH, VGG16_BATCH, ISCA_BATCH = 4, 3, 16
ALEXNET = {
    "conv1": OnChip(154, 16.5, 18.5, 5.0, 332, 0.0001),
    "conv2": OnChip(135, 39.2, 77.6, 4.0, 288, 0.387),
    "conv3": OnChip(156, 21.8, 50.2, 3.0, 266, 0.725),
    "conv4": OnChip(156, 16.0, 37.4, 2.1, 235, 0.793),
    "conv5": OnChip(156, 10.0, 24.9, 1.3, 236, 0.776),
}
"""JSSC 2017, Table V: batch 4."""

ALEXNET_SAVED = {"conv1": 0.30, "conv5": 0.75}
"""JSSC 2017, section III: part by which run-length coding reduces a layer's DRAM accesses for feature maps, nearly."""

VGG16 = {
    "conv1_1": OnChip(156, 38.0, 112.6, 15.4, 247, 0.016),
    "conv1_2": OnChip(156, 810.6, 2402.8, 54.0, 218, 0.477),
    "conv2_1": OnChip(156, 405.3, 1201.4, 33.4, 242, 0.248),
    "conv2_2": OnChip(156, 810.8, 2402.8, 48.5, 231, 0.387),
    "conv3_1": OnChip(156, 204.0, 607.4, 20.2, 254, 0.397),
    "conv3_2": OnChip(156, 408.1, 1214.8, 32.2, 235, 0.581),
    "conv3_3": OnChip(156, 408.1, 1214.8, 30.8, 233, 0.587),
    "conv4_1": OnChip(168, 105.1, 321.8, 17.8, 278, 0.643),
    "conv4_2": OnChip(168, 210.0, 643.7, 28.6, 261, 0.747),
    "conv4_3": OnChip(168, 210.0, 643.7, 22.8, 240, 0.854),
    "conv5_1": OnChip(168, 48.3, 90.0, 6.3, 258, 0.794),
    "conv5_2": OnChip(168, 48.5, 90.0, 5.7, 236, 0.874),
    "conv5_3": OnChip(168, 48.5, 90.0, 5.6, 230, 0.885),
}
"""JSSC 2017, Table VI: batch 3."""

VGG16_SEEN = ("conv1_2", "conv3_1", "conv4_2", "conv5_1")
"""Rows of Table VI by whose elements, times and words the rules for mappings were chosen."""

VGG16_MILLISECONDS = 3755.2
"""JSSC 2017, Table VI: processing time of all convolutions."""

ISCA = {
    "conv1": (1.69, 2.46, 6.75),
    "conv2": (3.58, 2.27, 14.33),
    "conv3": (2.39, 2.02, 9.57),
    "conv4": (1.79, 1.57, 7.18),
    "conv5": (1.20, 1.05, 4.78),
    "fc1": (0.60, 7.78, 2.42),
    "fc2": (0.27, 3.39, 1.07),
    "fc3": (0.07, 0.84, 0.26),
}
"""ISCA 2016, Figure 10: energy of arithmetic, DRAM and registers, in 10^9 times that of a MAC; batch 16."""

TETRIS_ENERGY = 0.70
"""TETRIS: energy beside the array with two-dimensional DRAM, about; the speeds are in proportion to the elements, within 20 %."""
