"""CGDP (ICPE 2018): chunks by its rule, their number, the search for a size, AlexNet layer by layer, Table 2.

Times that the paper measured stand here as what is given. From them, and from the multiply-adds of a model file, all
else is computed but one number, the synchronisation of a chunk, which is fitted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.chunks import (
    EXCHANGES,
    LayerTimes,
    Sizes,
    SizeSearch,
    StepTimes,
    best_sizes,
    groupings,
    rule_sizes,
    search_size,
    typical,
)
from hypar.graph import load_model
from hypar.plots import Figure
from hypar.reproductions.base import Page, Reproduction, Section
from hypar.schedule.overlap import lower_chunks
from hypar.timeline import run

if TYPE_CHECKING:
    from collections.abc import Callable

MODEL = "alexnet-2012"
COPY_OUT = (0.760, 3.156, 12.146, 0.133, 0.174, 0.275, 0.066, 0.014)
ACCUMULATE = (1.263, 4.441, 13.074, 0.285, 0.465, 0.578, 0.155, 0.018)
COPY_BACK = (1.786, 2.568, 5.538, 0.064, 0.095, 0.123, 0.041, 0.007)
"""Table 4: ms of the exchange of each layer of AlexNet, from the last to the first."""

BACKWARD_MS, OVERLAPPED_MS = 104, 111.0
"""AlexNet's backward phase alone, and with its gradients exchanged beside it, layer by layer."""

ITERATIONS = {"AlexNet": (202.7, 167.1), "GoogLeNet-v1": (163.4, 156.7), "VGG-16": (445.6, 369.1)}
"""Table 2: ms of an iteration on four GPUs, typical and CGDP."""

SPEEDUPS = {"AlexNet": 1.21, "GoogLeNet-v1": 1.04, "VGG-16": 1.21}
"""The abstract: how many times faster. It has 1.07 for ResNet-152 as well."""

CHUNKS_OF_3 = (3, 1, 1, 1)
"""The example of the rule: six layers in chunks of three are (6, 5, 4), (3), (2), (1)."""

STEP, RANGE, FASTEST, STOP = 10, 5, 9, 150
"""Algorithm 1 with this step and range, where chunks of nine are the fastest, stops at this iteration."""

PAPER = EXCHANGES["independent"]
"""How the paper counts: any number of exchanges at once."""


class Cgdp:
    """What the paper states of its chunks, and its measured times put into its model."""

    def run(self, progress: Callable[[int, int], None]) -> Page:
        """Six sections."""
        parts = (rule, proposition, algorithm, table_4, alexnet_chunks, table_2)
        sections = []
        for done, part in enumerate(parts, 1):
            sections.append(part())
            progress(done, len(parts))
        return Page(
            name="cgdp",
            title="CGDP (ICPE 2018): published and ours",
            text=(
                f"Written by `hypar reproduce cgdp` from the model file `{MODEL}` and the paper's measured times, which"
                " are given; a test computes it again. Layers are counted from 1 at the input, so the backward phase"
                " goes from the last to the first. One number is fitted, the synchronisation of a chunk. Le, Sekiyama,"
                " Negishi, Imai and Kawachiya, Involving CPUs into Multi-GPU Deep Learning."
            ),
            sections=tuple(sections),
        )


def alexnet(sync_s: float) -> StepTimes:
    """AlexNet with Table 4's exchange; its backward phase is split by multiply-adds.

    Args:
        sync_s: the synchronisation of a chunk.
    """
    weighted = [layer for layer in load_model(MODEL).layers if layer.op.weighted]
    macs = sum(layer.macs() for layer in weighted)
    parts = zip(COPY_OUT[::-1], ACCUMULATE[::-1], COPY_BACK[::-1], strict=True)
    layers = tuple(
        LayerTimes(
            name=layer.name,
            forward_s=0.0,
            backward_s=BACKWARD_MS / 1e3 * layer.macs() / macs,
            exchange_s={"copy out": out / 1e3, "accumulate": added / 1e3, "copy back": back / 1e3},
        )
        for layer, (out, added, back) in zip(weighted, parts, strict=True)
    )
    return StepTimes(layers=layers, sync_s=sync_s)


def fitted_sync_s() -> float:
    """The synchronisation with which the layer by layer model gives the published time.

    Each layer's span grows by one synchronisation for each layer from the last to it, so the least that brings any
    span to the published time is it.
    """
    free = alexnet(0.0)
    spans = PAPER.spans(free, rule_sizes(len(free.layers), 1))
    return min((OVERLAPPED_MS / 1e3 - span) / number for number, span in enumerate(spans, 1))


def engine_s(times: StepTimes, sizes: Sizes) -> float:
    """Seconds by the engine."""
    return run(lower_chunks(times, sizes, PAPER).tasks).makespan


def algorithm_1() -> SizeSearch:
    """The search on times with one valley."""
    return search_size(lambda size: abs(size - FASTEST), step=STEP, reach=RANGE)


def rule() -> Section:
    """Six layers in chunks of every size."""
    count = sum(CHUNKS_OF_3)
    rows = []
    for size in range(1, count + 1):
        sizes = rule_sizes(count, size)
        published = _layers(CHUNKS_OF_3) if size == CHUNKS_OF_3[0] else ""
        rows.append((str(size), published, _layers(sizes), str(len(sizes))))
    return Section(
        title="Rule: chunks of a size",
        text=(
            f"{count} layers. Chunks of the size are formed from the last layer down; what is left over, or one chunk's"
            " worth where nothing is, stays single, for gradients that come late should be small."
        ),
        heads=("size", "chunks, published", "chunks, ours", "number"),
        rows=tuple(rows),
    )


def proposition() -> Section:
    """Groupings counted one by one."""
    rows = [
        (str(count), f"{2 ** (count - 1) - 1:,}", f"{sum(len(sizes) > 1 for sizes in groupings(count)):,}")
        for count in (1, 2, 3, 6, 8, 12)
    ]
    return Section(
        title="Proposition 4.1: groupings",
        text=(
            "The proposition's 2^(l - 1) - 1 beside every grouping of l layers into consecutive chunks, formed and"
            " counted. The one that it leaves out is read as the single chunk of all layers, which overlaps nothing."
        ),
        heads=("layers", "published", "ours"),
        rows=tuple(rows),
    )


def algorithm() -> Section:
    """Every size that the search tries."""
    found = algorithm_1()
    rows = [
        (str(trial.iteration), str(trial.size), f"{trial.seconds:.0f}", str(trial.best))
        for trial in found.trials
    ]
    return Section(
        title="Algorithm 1: the search for a size",
        text=(
            f"Step {STEP}, range {RANGE}, on made-up times that fall to size {FASTEST} and rise after it. Published: it"
            f" stops at iteration {STOP}. Ours: it stops at iteration {found.stopped_at} with size {found.size}. Every"
            " size up to the step is tried, then its multiples, each for ten iterations. The test for the end comes before"
            f" the measurement, so size {found.unmeasured} is trained with and not measured; a size replaces the best only"
            " if it is strictly faster."
        ),
        heads=("iteration", "size", "time", "best so far"),
        rows=(*rows, (str(found.stopped_at), str(found.unmeasured), "", str(found.size))),
    )


def table_4() -> Section:
    """When the gradients of each layer have arrived."""
    sync_s = fitted_sync_s()
    times = alexnet(sync_s)
    count = len(times.layers)
    each = rule_sizes(count, 1)
    spans, free = PAPER.spans(times, each), PAPER.spans(alexnet(0.0), each)
    critical = times.backward_order[spans.index(max(spans))].name
    rows = [
        (
            f"{count - index}, {layer.name}",
            _ms(layer.backward_s, 2),
            *(_ms(seconds, 3) for seconds in layer.exchange_s.values()),
            _ms(span, 1),
        )
        for index, (layer, span) in enumerate(zip(times.backward_order, spans, strict=True))
    ]
    return Section(
        title="Table 4: AlexNet layer by layer",
        text=(
            "In ms; the three parts of the exchange are the paper's, and given, as is the backward phase of"
            f" {BACKWARD_MS} ms in all, which is split over the layers by multiply-adds: how it is split moves no time"
            f" but those of layers that are not critical. Fitted: a synchronisation of {sync_s * 1e3:.4f} ms a layer is"
            f" what brings the whole to {OVERLAPPED_MS} ms, as published; without any it is {_ms(max(free), 1)} ms. Ours:"
            f" {critical} is critical, as published; by the engine it is {_ms(engine_s(times, each), 1)} ms. With"
            " everything exchanged after the backward phase the model counts"
            f" {_ms(engine_s(*typical(times, PAPER)), 1)} ms."
        ),
        heads=("layer", "backward", "copy out", "accumulate", "copy back", "all arrived after"),
        rows=tuple(rows),
        figure=Figure(
            title="AlexNet, from the beginning of the backward phase", x=[layer.name for layer in times.backward_order],
            x_label="layer, in the order of the backward phase", y_label="ms",
            series={
                "its backward phase has ended": [seconds * 1e3 for seconds in times.ready[1:]],
                "its gradients have arrived": [span * 1e3 for span in spans],
            },
        ),
    )  # fmt: skip


def alexnet_chunks() -> Section:
    """What chunks do to it, by the rule and at best."""
    times = alexnet(fitted_sync_s())
    count = len(times.layers)
    found = search_size(lambda size: engine_s(times, rule_sizes(count, size)), step=STEP, reach=RANGE)
    ways = {f"size {size}": rule_sizes(count, size) for size in range(1, count + 1)}
    ways["best"] = best_sizes(times, PAPER)
    seconds = {name: engine_s(times, sizes) for name, sizes in ways.items()}
    rows = [(name, _layers(sizes), _ms(seconds[name], 2)) for name, sizes in ways.items()]
    return Section(
        title="Chunks: AlexNet by the rule and at best",
        text=(
            "Ours alone, with the times of Table 4 and the fitted synchronisation: ms until all gradients have arrived."
            f" Algorithm 1 finds size {found.size}. The best is over all {2 ** (count - 1)} groupings: every"
            " layer that joins a chunk saves a synchronisation, as long as no large exchange has to wait for it."
        ),
        heads=("chunks", "layers", "ms"),
        rows=tuple(rows),
        figure=Figure(
            title="AlexNet until all gradients have arrived",
            x=list(ways),
            x_label="chunks",
            y_label="ms",
            series={"exchanged beside the backward phase": [number * 1e3 for number in seconds.values()]},
        ),
    )


def table_2() -> Section:
    """Speed-ups, and AlexNet's from the model."""
    times = alexnet(fitted_sync_s())
    each = rule_sizes(len(times.layers), 1)
    saved = (engine_s(*typical(times, PAPER)) - engine_s(times, each)) * 1e3
    rows = []
    for name, (before, after) in ITERATIONS.items():
        model = (
            (f"{before - saved:.1f}", f"{before / (before - saved):.2f}") if name == "AlexNet" else ("", "")
        )
        rows.append((name, f"{before}", f"{after}", f"{SPEEDUPS[name]}", f"{before / after:.2f}", *model))
    before, after = ITERATIONS["AlexNet"]
    return Section(
        title="Table 2: iterations on four GPUs",
        text=(
            "In ms. The speed-ups that the paper states are those of its own iterations. The last two columns are"
            f" computed: AlexNet's typical iteration less the {saved:.1f} ms that the model saves. That is more than the"
            f" {before - after:.1f} ms of the measurement. The model's typical step adds up the copies and accumulations of"
            " Table 4, which are CGDP's, one after another; the typical training that was measured has an exchange of its"
            " own, whose times layer by layer are not at hand. Nor are there any for the other two, or iterations of"
            " ResNet-152, for which the abstract states 1.07."
        ),
        heads=("network", "typical, published", "CGDP, published", "speed-up, published", "of the two, ours",
               "CGDP, model", "speed-up, model"),
        rows=tuple(rows),
    )  # fmt: skip


def _layers(sizes: Sizes) -> str:
    """Chunks as the paper writes them.

    Example:
        >>> _layers((2, 1))
        '(3, 2), (1)'
    """
    left, texts = sum(sizes), []
    for size in sizes:
        texts.append(f"({', '.join(str(left - place) for place in range(size))})")
        left -= size
    return ", ".join(texts)


def _ms(seconds: float, digits: int) -> str:
    """Milliseconds."""
    return f"{seconds * 1e3:.{digits}f}"


plugin: Reproduction = Cgdp()
