"""The pipeline's Tables I and II and Figures 2 and 9: the memory of stages and threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.files.figures import Figure
from hypar.planning.planner import plan_model
from hypar.studies.page import Section
from hypar.studies.sections.pipeline.blocks import SCHEDULE, divided
from hypar.studies.sections.pipeline.counts import Counted, cut_beside, readings
from hypar.studies.sections.pipeline.published import (
    ACTIVATIONS,
    BATCHES,
    ERRORS,
    EXTRA,
    GIGABYTES,
    LESS,
    STARTS,
    STARTS_OF,
    THREADS,
    TOTALS,
    TWICE,
    WEIGHTS,
)
from hypar.units import format_bytes

if TYPE_CHECKING:
    from hypar.network.graph import LayerGraph
    from hypar.studies.sections.pipeline.blocks import Blocks


def threads(found: Blocks) -> Section:
    """Compare four threads of data parallelism."""
    plain, extra = Counted(found=found), Counted(found=found, extra=True)
    rows = []
    for what, published in THREADS.items():
        for place, batch in enumerate(BATCHES if "Y" in what else BATCHES[:1]):
            own, other = (_of_threads(what, counted, batch) for counted in (plain, extra))
            name = f"{what}, batch {batch}" if "Y" in what else f"{what}, any batch"
            rows.append((name, *cut_beside(published[place], own), f"{other:.3f}"))
    return Section(
        title="Table I: four threads",
        text=(
            "MB. Each thread holds the whole network, W, its gradients dW, the tensors Y of one mini-batch and an error dY for"
            " each, and receives and sends as much as W; none of these but Y and dY depends on the batch. The printed Y has"
            f" the tenth tensor of stage {EXTRA}, see Table II. At batch 32 the printed numbers are 32 times those of batch 1"
            " as printed; sums are of printed numbers. 973.8 MB are received and as many sent, while the abstract and section"
            " 3.1 give 974 MB for sending and receiving together, see Figure 5."
        ),
        heads=("", "published", "ours", "ratio", "with the tenth tensor"),
        rows=tuple(rows),
    )


def _of_threads(what: str, counted: Counted, batch: int) -> float:
    tensor, who = what.split(", ")
    count = len(counted.found.stages) if who == "all" else 1
    whole = sum(counted.kept(stage) for stage in counted.found.stages)
    return count * (batch * whole if tensor in {"Y", "dY"} else counted.weights // 2) / 1e6


def stages(found: Blocks) -> Section:
    """Compare weights, activations and errors of each stage at batch 1."""
    ours, with_extra = Counted(found=found), Counted(found=found, extra=True)
    rows: list[tuple[str, ...]] = []
    for number, stage in enumerate(found.stages):
        row = (
            str(number + 1),
            f"{stage.layers[0]} to {stage.layers[-1]}",
            *cut_beside(WEIGHTS[number], stage.memory["weights"] / 1e6),
            str(stage.in_flight),
            f"{ours.kept(stage) // 4:,}",
            *cut_beside(ACTIVATIONS[1][number], ours.activations(stage) / 1e6),
            *cut_beside(ERRORS[1][number], ours.errors(stage) / 1e6),
        )
        rows.append(row)
    third, last = found.stages[EXTRA - 1], found.stages[-1]
    weights = sum(stage.memory["weights"] for stage in found.stages)
    sums = (sum(own(stage) for stage in found.stages) / 1e6 for own in (ours.activations, ours.errors))
    rows.append((
        "all", "", *cut_beside(WEIGHTS[-1], weights / 1e6), "", "",
        *(cell for known, own in zip((ACTIVATIONS, ERRORS), sums, strict=True)
          for cell in cut_beside(known[1][-1], own)),
    ))  # fmt: skip
    return Section(
        title="Table II: weights, activations and errors",
        text=(
            f"Weights with four numbers a channel of batch normalisation, {weights / 1e6:.4f} MB in all; activations and"
            " errors at batch 1. The printed numbers are cut to two digits. Each stage keeps the output of each of its"
            f" layers, the first the image besides, for all images in flight, and an error for each of one image. Stage"
            f" {EXTRA} is printed with ten tensors of {ours.kept(third) // 36:,} numbers where its layers have nine outputs;"
            " the tenth is not explained. It is as large as what the stage receives, which is counted for no other stage;"
            f" with it come {with_extra.activations(third) / 1e6:.3f} MB. The errors of stages {TWICE[0]} and {TWICE[1]} are"
            " printed twice as large as those of one image, of stages 1 and 2 they are not; doubled, and with the tenth"
            f" tensor, ours are {2 * with_extra.errors(third) / 1e6:.3f} and {2 * ours.errors(last) / 1e6:.3f} MB. dW is W."
        ),
        heads=("stage", "layers", "MB of weights, published", "ours", "ratio", "in flight", "numbers an image",
               "MB of activations, published", "ours", "ratio", "MB of errors, published", "ours", "ratio"),
        rows=tuple(rows),
    )  # fmt: skip


def at_batch(found: Blocks) -> Section:
    """Compare activations and errors of each stage at the larger batch."""
    batch = BATCHES[-1]
    plain = Counted(found=found)
    read = Counted(found=found, extra=True, twice=True, digits=True)
    rows, sums = [], [0.0] * 4
    for number, stage in enumerate(found.stages):
        sizes = [batch * size / 1e6 for size in (plain.activations(stage), plain.errors(stage))]
        cuts = [batch * read.cut(size) / 1e6 for size in (read.activations(stage), read.errors(stage))]
        rows.append(_row_at_batch(str(number + 1), number, [*sizes, *cuts]))
        sums = [before + own for before, own in zip(sums, (*sizes, *cuts), strict=True)]
    rows.append(_row_at_batch("all", -1, sums))
    return Section(
        title=f"Table II: batch {batch}",
        text=(
            f"MB. The printed numbers are {batch} times those of batch 1 in two digits, as the column in two digits computes"
            f" with the tenth tensor and the doubled errors of stages {TWICE[0]} and {TWICE[1]}: all ten to the last digit."
        ),
        heads=("stage", "activations, published", "ours", "ratio", "in two digits", "errors, published", "ours",
               "ratio", "in two digits"),
        rows=tuple(rows),
    )  # fmt: skip


def _row_at_batch(name: str, number: int, sizes: list[float]) -> tuple[str, ...]:
    """Return a row of activations and errors, exact and in two digits."""
    batch = BATCHES[-1]
    known = (ACTIVATIONS[batch][number], ERRORS[batch][number])
    cells = (
        (*cut_beside(published, own), f"{cut:.2f}")
        for published, own, cut in zip(known, sizes[:2], sizes[2:], strict=True)
    )
    return (name, *(cell for group in cells for cell in group))


def totals(found: Blocks) -> Section:
    """Compare the memory of four stages and of four threads."""
    every = readings(found)
    rows: list[tuple[str, ...]] = []
    series: dict[str, list[float]] = {"published": [], "ours": []}
    for what, printed in TOTALS.items():
        for batch, published in zip(BATCHES, printed, strict=True):
            counts = [
                one.pipeline(batch) if what == "pipeline" else one.threads(batch) for one in every.values()
            ]
            rows.append((what, str(batch), f"{published:.2f}", *(f"{count / 1e6:.2f}" for count in counts)))
            series["published"].append(published)
            series["ours"].append(counts[0] / 1e6)
    graphs = [found.graph.with_batch(batch) for batch in BATCHES]
    received = [format_bytes(divided(graph, STARTS).memory_bytes) for graph in graphs]
    own = [format_bytes(_planned(graph)) for graph in graphs]
    return Section(
        title="Tables I and II: totals",
        text=(
            "MB of weights, as many of gradients, activations, and an error for each tensor of one mini-batch; of four"
            " threads of data parallelism, each with the whole network and a mini-batch of its own. From left to right"
            f" what is printed comes out: with the tenth tensor of stage {EXTRA}; with the errors of stages"
            f" {TWICE[0]} and {TWICE[1]}, which are printed twice as large as those of the other two; and summed from"
            " the printed digits: the weights rounded to two, all else cut to two at batch 1 and then taken 32 times."
            " The last column is our reading of the digits; it gives all four totals to the last. The tenth tensor is"
            " in the threads' totals too, the doubling is not. With what a stage receives and must keep, and without"
            f" gradients of statistics, it is {received[0]} and {received[1]} for the pipeline. hypar's own plan of these"
            f" stages keeps what the backward phase reads instead of every output: {own[0]} and {own[1]}."
        ),
        heads=("", "batch", "published", *every),
        rows=tuple(rows),
        figure=Figure(
            title="MB of four stages or threads", x=[f"{what}, {batch}" for what in TOTALS for batch in BATCHES],
            x_label="", y_label="MB", series=series,
        ),
    )  # fmt: skip


def _planned(graph: LayerGraph) -> float:
    """Return the bytes that the same stages hold in hypar's plan, whose memory depends on no machine."""
    plan = plan_model(
        graph, graph="operators", levels=0, starts=STARTS, schedule=SCHEDULE, hardware="p100-4x4"
    )
    groups = [] if plan.score is None else plan.score.groups or []
    return sum(group.memory_bytes for group in groups)


def degrees(found: Blocks) -> Section:
    """Compare the memory of stages and threads as their number grows."""
    batch, rows = BATCHES[-1], []
    series: dict[str, list[float]] = {"threads": [], "pipeline": []}
    for count, starts in STARTS_OF.items():
        own = Counted(found=divided(found.graph, starts))
        sizes = {"threads": own.threads(batch), "pipeline": own.pipeline(batch)}
        less = 1 - sizes["pipeline"] / sizes["threads"]
        published = count == len(found.stages)
        known = (*(f"{size:.2f}" for size in GIGABYTES), f"{LESS:.0%}") if published else ("", "", "")
        cells = (f"{sizes['pipeline'] / 1e9:.2f}", f"{sizes['threads'] / 1e9:.2f}", f"{less:.0%}")
        firsts = ", ".join(stage.layers[0] for stage in own.found.stages)
        rows.append((str(count), firsts, *(cell for pair in zip(known, cells, strict=True) for cell in pair)))
        for name, size in sizes.items():
            series[name].append(size / 1e9)
    merged = _merged(found)
    ratio = series["threads"][list(STARTS_OF).index(4)] / series["pipeline"][list(STARTS_OF).index(4)]
    return Section(
        title="Figures 2 and 9: memory against degree",
        text=(
            f"GB at batch {batch}. Threads hold everything as often as there are threads; of the pipeline only activations"
            " grow (the paper says errors too). The stages of degree 4 are Table II's, without its misprints; with them it is"
            f" {_less_as_printed(found):.1%} less. The text at hand gives no layers for the others: taken are the four in"
            f" pairs and a weighted layer each; the three ways to merge the four into two hold {merged[0]:.2f} to"
            f" {merged[1]:.2f} GB. The paper"
            " says that the pipeline has less memory than threads at the same degree: so it is from degree 2 on, while one"
            " stage by the paper's 2P - 2S + 2 keeps two data sets where one worker without a pipeline keeps one. Where both"
            f" converge alike, four stages have {ratio:.2f} times the acceleration of four threads for a GB."
        ),
        heads=("degree", "first layers", "pipeline published", "pipeline", "threads published", "threads",
               "less published", "less"),
        rows=tuple(rows),
        figure=Figure(
            title=f"Memory against degree, batch {batch}", x=[str(count) for count in STARTS_OF], x_label="degree",
            y_label="GB", series=series, kind="lines",
        ),
    )  # fmt: skip


def _less_as_printed(found: Blocks) -> float:
    """Return the relative saving of four stages over four threads, with every misprint."""
    read = readings(found)["in two digits"]
    return 1 - read.pipeline(BATCHES[-1]) / read.threads(BATCHES[-1])


def _merged(found: Blocks) -> tuple[float, float]:
    """Return the least and the greatest GB of two stages that are merged from the published four."""
    first, *others = STARTS.split(",")
    sizes = [
        Counted(found=divided(found.graph, f"{first},{other}")).pipeline(BATCHES[-1]) for other in others
    ]
    return min(sizes) / 1e9, max(sizes) / 1e9
