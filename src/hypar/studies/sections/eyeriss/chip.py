"""The chip's Tables V and VI."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.files.figures import Figure
from hypar.studies.page import Section, beside
from hypar.studies.sections.eyeriss.published import (
    ALEXNET,
    ALEXNET_BATCH,
    VGG16,
    VGG16_BATCH,
    VGG16_MILLISECONDS,
)
from hypar.studies.sections.eyeriss.runs import (
    chip_milliwatts,
    forward,
    megabytes,
    milliseconds,
    roof_milliseconds,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.machine.machine import LayerTime
    from hypar.studies.sections.eyeriss.published import OnChip

WORD_HEADS = tuple(f"{what} MB, {whose}" for what in ("buffer", "DRAM") for whose in ("published", "ours"))


def table_5() -> Section:
    """Compare elements, time and power of AlexNet's convolutions."""
    times = forward("eyeriss", "alexnet-2012", ALEXNET_BATCH)
    rows = []
    for name, chip in ALEXNET.items():
        time = times[name]
        laid = time.work["forward"].mapping
        sets = f"{laid['sets']:.0f} of {laid['kernel_rows']:.0f} x {laid['columns']:.0f}, {laid['folds']:.0f} folds"
        power = beside(chip.milliwatts or 0.0, chip_milliwatts("eyeriss", time), 0)
        numbers = beside(chip.milliseconds, milliseconds(time), 1)
        rows.append((name, sets, str(chip.active), f"{laid['active']:.0f}", *numbers, *power))
    ours = {name: milliseconds(times[name]) for name in ALEXNET}
    total = beside(sum(chip.milliseconds for chip in ALEXNET.values()), sum(ours.values()), 1)
    return Section(
        title="Table V: AlexNet's convolutions",
        text=(
            "Forward, batch 4, 200 MHz, 12 x 14 processing elements; conv2, conv4 and conv5 in two groups. The sets are"
            " the chip's: conv1 has 11 rows of kernel and 55 rows of output, two sets of 11 x 7 elements work side by"
            " side in eight folds, so 154 are active; conv2 stands in two bands, 5 x 14 and 5 x 13. Times are those of"
            " arithmetic at the one fitted efficiency, which is filling and draining the array; early layers are slower"
            " and the last is faster than it says. Power is that of the chip without DRAM, with energies of TETRIS'"
            " planar array and no number fitted: it misses by up to a fourth, as the chip's clock and its idle"
            " registers are not counted (conv1), and elements skip the arithmetic of zeros (conv4 and conv5)."
        ),
        heads=(
            "layer", "sets", "active, published", "active, ours", "ms, published", "ms, ours", "ratio",
            "mW, published", "mW, ours", "ratio",
        ),
        rows=(*rows, ("total", "", "", "", *total, "", "", "")),
        figure=Figure(
            title="AlexNet's convolutions on Eyeriss", x=list(ALEXNET), x_label="", y_label="ms",
            series={"published": [chip.milliseconds for chip in ALEXNET.values()], "ours": list(ours.values())},
        ),
    )  # fmt: skip


def words_5() -> Section:
    """Compare the words of AlexNet's convolutions."""
    return Section(
        title="Table V: words of buffer and DRAM",
        text=(
            "The words between buffer and array follow from the mapping alone: fewest cycles, then fewest words from"
            " DRAM, then from the buffer. Its rules are the papers', and three that the papers do not spell out were chosen"
            " with these rows in view: partial sums stay in the buffer until they are complete, tiles take whole banks of"
            " 4 KiB and divide their loops, and an element holds one word more than the window of each channel."
            " No number is fitted. DRAM is counted without the chip's run-length compression of feature maps, which"
            " its measured words have: they are less by as many zeros as a layer's input and output hold, the more the"
            " deeper the layer. How many zeros is not known here, so the ratio stands as it is."
        ),
        heads=("layer", *WORD_HEADS[:2], "ratio", *WORD_HEADS[2:], "ratio"),
        rows=_words(ALEXNET, forward("eyeriss", "alexnet-2012", ALEXNET_BATCH)),
    )


def _words(published: Mapping[str, OnChip], times: Mapping[str, LayerTime]) -> tuple[tuple[str, ...], ...]:
    return tuple(
        (
            name,
            *beside(chip.buffer_mb, megabytes(times[name], "buffer"), 1),
            *beside(chip.memory_mb, megabytes(times[name], "memory"), 1),
        )
        for name, chip in published.items()
    )


def table_6() -> Section:
    """Compare elements and time of VGG-16's convolutions."""
    times = forward("eyeriss", "vgg16", VGG16_BATCH)
    rows = []
    for name, chip in VGG16.items():
        time = times[name]
        ours = milliseconds(time)
        roof = roof_milliseconds("eyeriss", time, chip.buffer_mb)
        active = f"{time.work['forward'].mapping['active']:.0f}"
        given = (f"{roof:.1f}", f"{roof / chip.milliseconds:.2f}")
        rows.append((name, str(chip.active), active, *beside(chip.milliseconds, ours, 1), *given))
    convolutions = sum(milliseconds(time) for name, time in times.items() if name.startswith("conv"))
    total = beside(VGG16_MILLISECONDS, convolutions, 1)
    return Section(
        title="Table VI: VGG-16's convolutions",
        text=(
            "Forward, batch 3. The second roof is the time of the words between buffer and array, 7.5 a cycle, fitted"
            " on conv1_2, conv3_1 and conv4_2 of this table (7.4, 7.4 and 7.7 by the chip's own counts). With the"
            " chip's own words, which our model does not derive, it gives the chip's times: the last two columns. With"
            " our words conv1_2 and conv3_1 miss, and all convolutions with them: the chip moves 7.3 and 5.6 times as many"
            " words as our mapping, with 156 elements active where ours has 168. By its counts it adds up one"
            " channel in a pass of conv1_2 and two of conv3_1, where AlexNet's mapping has six. Its words from DRAM are"
            " fewer than ours, so it seems to give DRAM more weight than cycles, and to cut rows into tiles, which our"
            " search does not; none of the rules that we tried for it gives both tables."
        ),
        heads=(
            "layer", "active, published", "active, ours", "ms, published", "ms, ours", "ratio",
            "ms, ours with the chip's words", "ratio",
        ),
        rows=(*rows, ("all convolutions", "", "", *total, "", "")),
    )  # fmt: skip


def words_6() -> Section:
    """Compare the words of VGG-16's convolutions."""
    return Section(
        title="Table VI: words of buffer and DRAM",
        text="As above; DRAM without compression, and the buffer's words those of our mapping.",
        heads=("layer", *WORD_HEADS[:2], "ratio", *WORD_HEADS[2:], "ratio"),
        rows=_words(VGG16, forward("eyeriss", "vgg16", VGG16_BATCH)),
    )
