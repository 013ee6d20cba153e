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
            "The words between buffer and array follow from the mapping alone: the least product of cycles and words from"
            " DRAM, then the fewest words from the buffer. Its rules are the papers', and three that the papers do not spell"
            " out were chosen with these rows in view: partial sums stay in the buffer until they are complete, tiles take"
            " whole banks of 4 KiB and divide their loops, and an element holds one word more than the window of each"
            " channel. Three more were chosen with Table VI in view. No number is fitted. DRAM is counted without the chip's run-length compression of feature maps, which"
            " its measured words have: they are less by as many zeros as a layer's input and output hold, the more the"
            " deeper the layer. How many zeros is not known here, so the ratio stands as it is."
        ),
        heads=("layer", *WORD_HEADS[:2], "ratio", *WORD_HEADS[2:], "ratio"),
        rows=_words(ALEXNET, forward("eyeriss", "alexnet-2012", ALEXNET_BATCH)),
    )


def _words(published: Mapping[str, OnChip], times: Mapping[str, LayerTime]) -> tuple[tuple[str, ...], ...]:
    rows = []
    for name, time in times.items():
        if not name.startswith("conv"):
            continue
        buffer, memory = megabytes(time, "buffer"), megabytes(time, "memory")
        if (chip := published.get(name)) is None:
            rows.append((name, "", f"{buffer:.1f}", "", "", f"{memory:.1f}", ""))
        else:
            rows.append((name, *beside(chip.buffer_mb, buffer, 1), *beside(chip.memory_mb, memory, 1)))
    return tuple(rows)


def table_6() -> Section:
    """Compare elements and time of VGG-16's convolutions."""
    times = forward("eyeriss", "vgg16", VGG16_BATCH)
    rows = []
    for name, time in times.items():
        if not name.startswith("conv"):
            continue
        ours, active = milliseconds(time), f"{time.work['forward'].mapping['active']:.0f}"
        chip, watts = VGG16.get(name), f"{chip_milliwatts('eyeriss', time):.0f}"
        if chip is None:
            rows.append((name, "", active, "", f"{ours:.1f}", "", "", "", watts))
            continue
        roof = roof_milliseconds("eyeriss", time, chip.buffer_mb)
        given = (f"{roof:.1f}", f"{roof / chip.milliseconds:.2f}")
        rows.append((name, str(chip.active), active, *beside(chip.milliseconds, ours, 1), *given, watts))
    convolutions = sum(milliseconds(time) for name, time in times.items() if name.startswith("conv"))
    total = beside(VGG16_MILLISECONDS, convolutions, 1)
    return Section(
        title="Table VI: VGG-16's convolutions",
        text=(
            "Forward, batch 3. The second roof is the time of the words between buffer and array, 7.5 a cycle, fitted"
            " on conv1_2, conv3_1 and conv4_2 of this table (7.4, 7.4 and 7.7 by the chip's own counts); it bounds all"
            " layers but those of conv5. The last two columns have the chip's own words instead of those of our mapping."
            " The paper does not say how the mappings of this table were chosen. They are slower than they could be: with"
            " 168 elements and more channels in a pass, conv1_2 would take less than a fourth of its time. Three rules, none with a"
            " number of its own, give the table, and AlexNet's with it; they were chosen with the whole table in view."
            " First, a mapping has the least product of cycles and words from DRAM; that gives 13 columns of 14, as with"
            " 14 the partial sums of 16, 32 or 64 filters leave no room for input, and half as many filters read it twice"
            " as often."
            " Second, sets stand only below or only beside one another, as Table V's active elements do: narrow pieces, of"
            " which eight sets would fit, would otherwise need fewer words from DRAM."
            " Third, the rows of input that a pass reads of a sample lie in one bank of 4 KiB, which gives one, two, four"
            " and eight channels a pass for rows of 112, 56, 28 and 14 and leaves AlexNet's mappings as they are."
            " Published rows that are not at hand are left empty."
        ),
        heads=(
            "layer", "active, published", "active, ours", "ms, published", "ms, ours", "ratio",
            "ms, ours with the chip's words", "ratio", "mW, ours",
        ),
        rows=(*rows, ("all convolutions", "", "", *total, "", "", "")),
    )  # fmt: skip


def words_6() -> Section:
    """Compare the words of VGG-16's convolutions."""
    return Section(
        title="Table VI: words of buffer and DRAM",
        text=(
            "As above. The buffer's words are in excess by 3 to 7 percent. DRAM is counted without compression; rows of"
            " 224 columns are not cut into tiles, as the chip's seem to be, so that conv1_2 keeps 16 filters instead of 32"
            " in the buffer and reads its input twice as often."
        ),
        heads=("layer", *WORD_HEADS[:2], "ratio", *WORD_HEADS[2:], "ratio"),
        rows=_words(VGG16, forward("eyeriss", "vgg16", VGG16_BATCH)),
    )
