"""The chip's Tables V and VI, and where its power goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.files.figures import Figure
from hypar.studies.page import Section, beside
from hypar.studies.sections.eyeriss.published import ALEXNET, VGG16, VGG16_MILLISECONDS, VGG16_SEEN
from hypar.studies.sections.eyeriss.runs import (
    element_saving,
    megabytes,
    milliseconds,
    milliwatts,
    on_chip,
    zeros_written,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hypar.machine.machine import LayerTime
    from hypar.studies.sections.eyeriss.published import OnChip

HEADS = (
    "layer", "active, published", "active, ours", "ms, published", "ms, ours", "ratio",
    "mW, published", "mW, ours", "ratio",
)  # fmt: skip
WORD_HEADS = (
    "layer", "zeros read", "zeros written", "buffer MB, published", "buffer MB, ours", "ratio",
    "DRAM MB, published", "DRAM MB, ours", "ratio",
)  # fmt: skip
HELD_OUT = tuple(name for name in VGG16 if name not in VGG16_SEEN)


def table_5() -> Section:
    """Compare elements, time and power of AlexNet's convolutions."""
    times = on_chip("alexnet-2012")
    ours = {name: milliseconds(time) for name, time in times.items()}
    total = beside(sum(chip.milliseconds for chip in ALEXNET.values()), sum(ours.values()), 1)
    return Section(
        title="Table V: AlexNet's convolutions",
        text=(
            "Forward, batch 4, 200 MHz, 12 x 14 processing elements; conv2, conv4 and conv5 in two groups. The sets are"
            " the chip's: conv1 has 11 rows of kernel and 55 rows of output, two sets of 11 x 7 elements work side by"
            " side in eight folds, so 154 are active; conv2 stands in two bands, 5 x 14 and 5 x 13. Times are those of"
            " arithmetic at the one fitted efficiency, which is filling and draining the array; early layers are slower"
            " and the last is faster than it says. Power is that of the chip without DRAM."
        ),
        heads=HEADS,
        rows=(*_numbers(ALEXNET, times, ALEXNET), ("total", "", "", *total, "", "", "")),
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
            " channel. Four more were chosen with Table VI in view. No number is fitted. Feature maps lie in DRAM run-length"
            " coded, but for the first layer's input; weights are not coded. Three pairs of a run of at most 31 zeros, in 5"
            " bits, and an element, in 16, take 64 bits; zeros are taken to be anywhere, so that an element takes"
            " 4/3 (1 - z) / (1 - z^32) words. Each channel of a sample is a code, as a pass reads some channels: the zeros at its"
            " end take a pair, and its last word has room for one in the mean. The zeros of a layer's input are the table's. Those of its output are known only"
            " behind the pool that may follow: they are taken from the next layer's input, which has fewer, but for conv1 and"
            " conv5, where the paper says that coding saves nearly 30 and 75 percent of the accesses for feature maps."
        ),
        heads=WORD_HEADS,
        rows=_words(ALEXNET, on_chip("alexnet-2012"), ALEXNET),
    )


def table_6() -> Section:
    """Compare elements, time and power of the convolutions of VGG-16 by which the rules were chosen."""
    return Section(
        title="Table VI: VGG-16's convolutions, rows in view",
        text=(
            "Forward, batch 3. The second roof is the time of the words between buffer and array, 8 a cycle, as the links for"
            " partial sums carry; it bounds all layers but those of conv5. The paper does not say how the mappings of this"
            " table were chosen. They are slower than they could be: with 168 elements and more channels in a pass, conv1_2"
            " would take less than a fourth of its time. Four rules, none with a number of its own, give the table, and"
            " AlexNet's with it. First, a mapping has the least product of cycles and words from DRAM, zeros coded; that gives"
            " 13 columns of 14, as with 14 the partial sums of 16, 32 or 64 filters leave no room for input, and half as many"
            " filters read it twice as often. Second, sets stand only below or only beside one another, as Table V's active"
            " elements do: narrow pieces, of which eight sets would fit, would otherwise need fewer words from DRAM."
            " Third, the rows of input that a pass reads of a sample lie in one bank of 4 KiB, which gives one, two, four"
            " and eight channels a pass for rows of 112, 56, 28 and 14 and leaves AlexNet's mappings as they are. Fourth, where"
            " the rows of one channel do not fit a bank, they may be cut in two halves, so that conv1_2 keeps 32 filters in"
            " the buffer, as its words show. The clock's power is fitted on AlexNet's rows alone: see below."
        ),
        heads=HEADS,
        rows=_numbers(VGG16, on_chip("vgg16"), VGG16_SEEN),
    )


def words_6() -> Section:
    """Compare the words of VGG-16's convolutions that were in view."""
    return Section(
        title="Table VI: words of buffer and DRAM, rows in view",
        text=(
            "As above. The buffer's words are in excess by 3 to 7 percent. That DRAM is counted with zeros coded when mappings"
            " are chosen decides conv4_2: three samples of 32 filters stay in the buffer, instead of one of 64."
        ),
        heads=WORD_HEADS,
        rows=_words(VGG16, on_chip("vgg16"), VGG16_SEEN),
    )


def held_out_6() -> Section:
    """Compare elements, time and power of VGG-16's other convolutions."""
    times = on_chip("vgg16")
    total = beside(VGG16_MILLISECONDS, sum(map(milliseconds, times.values())), 1)
    return Section(
        title="Table VI: VGG-16's convolutions, rows held out",
        text=(
            "No number is fitted to these rows, but they were known when the rules were chosen, so they are no blind test: the"
            " words of conv2_1 and conv2_2 speak for halves of rows only where a bank demands them. The last row is all"
            " thirteen layers."
        ),
        heads=HEADS,
        rows=(*_numbers(VGG16, times, HELD_OUT), ("all convolutions", "", "", *total, "", "", "")),
    )


def held_out_words_6() -> Section:
    """Compare the words of VGG-16's other convolutions."""
    return Section(
        title="Table VI: words of buffer and DRAM, rows held out",
        text=(
            "The largest difference is conv4_3's: the chip reads the weights once a sample, as its words and those of conv4_1"
            " and conv4_2 show, ours twice for three samples, which moves fewer words. Padding is counted as if it were read,"
            " for which AlexNet's words speak, and those of other rows here do not. The output of conv5_3 is taken to have as many zeros as its input."
        ),
        heads=WORD_HEADS,
        rows=_words(VGG16, on_chip("vgg16"), HELD_OUT),
    )


def power() -> Section:
    """List where the power of AlexNet's layers goes."""
    rows = []
    for name, time in on_chip("alexnet-2012").items():
        parts = milliwatts(time)
        moving = parts["registers"] + parts["array"] + parts["buffer"]
        shares = (parts["arithmetic"], moving, parts["static"])
        rows.append((name, *(f"{100 * share / sum(parts.values()):.0f}" for share in shares)))
    return Section(
        title="Power by component",
        text=(
            "In percent of the chip's power. A MAC of 16 bits takes 1.19 pJ: Horowitz (ISSCC 2014) gives 3.1 and 0.1 pJ for"
            " multiplying and adding 32 bits at 45 nm, of which 16 bits take a fourth and half, and 65 nm more in proportion"
            " to the length; voltages are taken to be equal. A register, the array's network and the buffer take 1, 2 and 6"
            " times as much (ISCA 2016). One number is fitted: 166 mW at rest, for the clock, on the five powers of Table V."
            " An element whose input is zero reads it, and neither W nor the partial sum; with its part of the clock it then"
            f" saves {element_saving():.0%} of its power, of which the paper says 45 percent. The paper says also that the"
            " arithmetic takes less than 10 percent, registers, network and buffer up to 45, and the clock most."
        ),
        heads=("layer", "arithmetic", "registers, network and buffer", "clock"),
        rows=tuple(rows),
    )


def _numbers(
    published: dict[str, OnChip], times: dict[str, LayerTime], names: Iterable[str]
) -> tuple[tuple[str, ...], ...]:
    rows = []
    for name in names:
        chip, time = published[name], times[name]
        active = f"{time.work['forward'].mapping['active']:.0f}"
        seconds = beside(chip.milliseconds, milliseconds(time), 1)
        watts = beside(chip.milliwatts, sum(milliwatts(time).values()), 0)
        rows.append((name, str(chip.active), active, *seconds, *watts))
    return tuple(rows)


def _words(
    published: dict[str, OnChip], times: dict[str, LayerTime], names: Iterable[str]
) -> tuple[tuple[str, ...], ...]:
    rows = []
    for name in names:
        chip, written = published[name], zeros_written(published)[name]
        buffer = beside(chip.buffer_mb, megabytes(times[name], "buffer"), 1)
        memory = beside(chip.memory_mb, megabytes(times[name], "memory"), 1)
        rows.append((name, f"{chip.zeros:.1%}", f"{written:.1%}", *buffer, *memory))
    return tuple(rows)
