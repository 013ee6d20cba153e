"""Layer-block-wise pipeline (MLSP 2017): Tables I and II, and the schedule, simulated.

Published numbers stand here to be printed beside ours; no computation reads them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hypar.graph import LayerGraph, load_model
from hypar.ops.base import elements_of
from hypar.pipelining import pipeline_model
from hypar.plots import Figure
from hypar.reproductions.base import Page, Reproduction, Section, beside
from hypar.schedule.measures import ran, step_ends
from hypar.schedule.orders import SCHEDULES, in_flight, staleness
from hypar.schedule.pipeline import Pace, lower
from hypar.timeline import run
from hypar.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypar.pipelines import Pipeline, Stage

MODEL, STARTS = "vgg-f", "conv1,conv2,conv3,pool5"
BATCHES = (1, 32)
DEPTHS = (1, 2, 4, 8)

WEIGHTS = (0.09, 1.64, 7.09, 234.61)
"""Table I: MB of each stage's weights."""

ACTIVATIONS = (24.22, 14.47, 6.92, 0.28)
"""Table I: MB of the activations that each stage keeps at batch 1."""

TOTALS = {"pipeline": (541.96, 2248.82), "data parallelism": (2006.08, 3818.96)}
"""Table I: MB of four stages and of four threads, at each of ``BATCHES``."""

RECEIVED = (0.602, 0.187, 0.173, 0.173)
"""Table II: MB that each stage receives for an image."""

MOVED = {"forward": 36.30, "backward": 17.04, "weights": 974}
"""Table II: MB of a mini-batch of 32, each way; the abstract: of the weights that four threads unify."""

CONVERGENCE = 1.12
"""The abstract: by how much four stages converge faster than four threads."""

TWICE = (3, 4)
"""Stages whose errors are printed twice as large as those of one mini-batch."""

EXTRA = 3
"""The stage that is printed with one tensor more than its layers give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """A pipeline of the published stages at batch 1, and the sums that Table I makes of it.

    Attributes:
        found: the pipeline.
        extra: whether ``EXTRA`` has the tensor more; it is as large as what that stage receives.
        twice: whether the errors of ``TWICE`` count twice.
        digits: whether sums are of numbers of two digits: the weights in all rounded, the rest cut off.
    """

    found: Pipeline
    extra: bool = False
    twice: bool = False
    digits: bool = False

    def kept(self, stage: Stage) -> int:
        """Bytes of the tensors that a stage keeps of one image."""
        more = stage.memory["received"] if self.extra and self.number(stage) == EXTRA else 0
        return (stage.memory["activations"] + more) // stage.in_flight

    def number(self, stage: Stage) -> int:
        """From 1."""
        return self.found.stages.index(stage) + 1

    def activations(self, stage: Stage) -> int:
        """Bytes of all that are in flight."""
        return stage.in_flight * self.kept(stage)

    def errors(self, stage: Stage) -> int:
        """Bytes: an error for each tensor of one image."""
        return self.kept(stage) * (2 if self.twice and self.number(stage) in TWICE else 1)

    @property
    def weights(self) -> int:
        """Bytes of all weights and statistics, and as many of gradients."""
        own = sum(stage.memory["weights"] for stage in self.found.stages)
        return 2 * (round(own, -4) if self.digits else own)

    def cut(self, num_bytes: int) -> int:
        """A size, to two digits after the point in MB where that is asked for."""
        return num_bytes // 10_000 * 10_000 if self.digits else num_bytes

    def pipeline(self, batch: int) -> int:
        """Bytes of all stages."""
        rows = ((self.activations(stage), self.errors(stage)) for stage in self.found.stages)
        return self.weights + batch * sum(self.cut(size) for row in rows for size in row)

    def threads(self, batch: int) -> int:
        """Bytes of as many threads, each with the whole network and its own mini-batch."""
        whole = self.cut(sum(self.kept(stage) for stage in self.found.stages))
        return len(self.found.stages) * (self.weights + batch * 2 * whole)


class LayerBlockPipeline:
    """The paper's two tables, its schedule, and other stages of its network."""

    def run(self, progress: Callable[[int, int], None]) -> Page:
        """Weights and activations, totals, bytes between stages, the schedule, the best partitions."""
        graph = network()
        found = pipeline_model(graph, starts=STARTS, batch=1)
        parts: tuple[Callable[[], Section], ...] = (
            lambda: stages(found),
            lambda: totals(found),
            lambda: between(found),
            simulated,
            lambda: partitions(graph),
            convergence,
        )
        sections = []
        for done, part in enumerate(parts, 1):
            sections.append(part())
            progress(done, len(parts))
        return Page(
            name="pipeline",
            title="Layer-block-wise pipeline (MLSP 2017): published and ours",
            text=(
                "Mori, Youkawa, Izumi, Yoshimoto, Kawaguchi and Inoue, A layer-block-wise pipeline for memory and"
                " bandwidth reduction in distributed deep learning (MLSP 2017). Written by `hypar reproduce pipeline`"
                f" from the model file `{MODEL}` and the published stages, and as published without any bias; a test"
                " computes it again. Everything of ours is what [hypar pipeline](../pipeline.md) counts and simulates."
            ),
            sections=tuple(sections),
        )


def network() -> LayerGraph:
    """The network; the paper counts no biases."""
    graph = load_model(MODEL)
    layers = (
        replace(layer, op=layer.op.model_copy(update={"bias": False})) if layer.op.weighted else layer
        for layer in graph.layers
    )
    return replace(graph, layers=tuple(layers))


def stages(found: Pipeline) -> Section:
    """Weights and activations of each stage."""
    ours, with_extra = Counted(found=found), Counted(found=found, extra=True)
    rows = []
    for number, stage in enumerate(found.stages):
        row = (
            str(number + 1),
            f"{stage.layers[0]} to {stage.layers[-1]}",
            *_cut_beside(WEIGHTS[number], stage.memory["weights"] / 1e6),
            str(stage.in_flight),
            f"{ours.kept(stage) // 4:,}",
            *_cut_beside(ACTIVATIONS[number], ours.activations(stage) / 1e6),
        )
        rows.append(row)
    third = found.stages[EXTRA - 1]
    weights = sum(stage.memory["weights"] for stage in found.stages)
    return Section(
        title="Table I: weights and activations",
        text=(
            f"Weights with four numbers a channel of batch normalisation, {weights / 1e6:.4f} MB in all; activations of"
            f" one image. The printed numbers are cut to two digits. Each stage keeps the output of each of its layers,"
            f" the first the image besides, for all images in flight. Stage {EXTRA} is printed with ten tensors of"
            f" {ours.kept(third) // 36:,} numbers where its layers have nine outputs; the tenth is not explained. It is"
            " as large as what the stage receives, which is counted for no other stage; with it come"
            f" {with_extra.activations(third) / 1e6:.3f} MB."
        ),
        heads=("stage", "layers", "MB of weights, published", "ours", "ratio", "in flight", "numbers an image",
               "MB of activations, published", "ours", "ratio"),
        rows=tuple(rows),
    )  # fmt: skip


def _cut_beside(published: float, ours: float) -> tuple[str, str, str]:
    """A number that was cut to two digits, ours with one more, and ours over it."""
    return f"{published:.2f}", f"{ours:.3f}", f"{ours / published:.2f}"


def readings(found: Pipeline) -> dict[str, Counted]:
    """Table I as we count it, and with its misprints one after the other."""
    return {
        "ours": Counted(found=found),
        "with the tenth tensor": Counted(found=found, extra=True),
        "and errors twice": Counted(found=found, extra=True, twice=True),
        "in two digits": Counted(found=found, extra=True, twice=True, digits=True),
    }


def totals(found: Pipeline) -> Section:
    """Memory of four stages and of four threads."""
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
    own = [
        format_bytes(pipeline_model(found.graph, starts=STARTS, batch=batch).memory_bytes)
        for batch in BATCHES
    ]
    return Section(
        title="Table I: totals",
        text=(
            "MB of weights, as many of gradients, activations, and an error for each tensor of one mini-batch; of four"
            " threads of data parallelism, each with the whole network and a mini-batch of its own. From left to right"
            f" what is printed comes out: with the tenth tensor of stage {EXTRA}; with the errors of stages"
            f" {TWICE[0]} and {TWICE[1]}, which are printed twice as large as those of the other two; and summed from"
            " the printed digits: the weights rounded to two, all else cut to two at batch 1 and then taken 32 times."
            " The last column is our reading of the digits; it gives all four totals to the last. The tenth tensor is"
            " in the threads' totals too, the doubling is not. hypar itself also counts what a stage receives and"
            f" must keep, and no gradients of statistics: {own[0]} and {own[1]} for the pipeline."
        ),
        heads=("", "batch", "published", *every),
        rows=tuple(rows),
        figure=Figure(
            title="MB of four stages or threads", x=[f"{what}, {batch}" for what in TOTALS for batch in BATCHES],
            x_label="", y_label="MB", series=series,
        ),
    )  # fmt: skip


def between(found: Pipeline) -> Section:
    """What stages receive."""
    image = sum(elements_of(layer.shape) for layer in found.graph.layers if layer.op_name == "input")
    ahead = [found.graph.element_bytes * image, *(stage.sent_bytes for stage in found.stages[:-1])]
    back = sum(stage.returned_bytes for stage in found.stages)
    weights = len(found.stages) * sum(stage.memory["weights"] for stage in found.stages)
    most = BATCHES[-1]
    cut = [most * size // 10_000 / 100 for size in (ahead[0], sum(ahead[1:]))]
    rows = [
        (f"into stage {number}, an image", *beside(published, own / 1e6, 3))
        for number, (published, own) in enumerate(zip(RECEIVED, ahead, strict=True), 1)
    ]
    sums = {"forward": most * sum(ahead), "backward": most * back, "weights": weights}
    names = {"forward": f"forward, batch {most}", "backward": f"backward, batch {most}",
             "weights": f"weights of {len(found.stages)} threads"}  # fmt: skip
    rows += [(names[key], *beside(MOVED[key], own / 1e6)) for key, own in sums.items()]
    return Section(
        title="Table II: bytes between stages",
        text=(
            "MB. Stage 1 receives the image; an error goes back over each of the three places where a tensor goes"
            f" forward. Forward is printed as the sum of two numbers cut to two digits, {cut[0]:.2f} of images and"
            f" {cut[1]:.2f} between stages, {sum(cut):.2f}; backward is the second alone. Data parallelism unifies the"
            " weights of every thread; its bytes are from the abstract."
        ),
        heads=("", "published", "ours", "ratio"),
        rows=tuple(rows),
    )


def simulated() -> Section:
    """The schedule as the engine runs it."""
    rows: list[tuple[str, ...]] = []
    series: dict[str, list[float | None]] = {}
    schedule = SCHEDULES["layer-block"]
    for depth in DEPTHS:
        count = 3 * depth
        lowered = lower(schedule, [Pace()] * depth, 1, count)
        timeline = run(lowered.tasks)
        done = ran(lowered, timeline)
        kept, late = [in_flight(works) for works in done], [staleness(works, 1) for works in done]
        formulas = [2 * depth - 2 * number + 2 for number in range(1, depth + 1)]
        columns = (formulas, kept, [formula - 1 for formula in formulas], late)
        rows.append((str(depth), str(count), str(count + 2 * depth - 1), str(len(step_ends(timeline))),
                     *(" ".join(map(str, column)) for column in columns)))  # fmt: skip
        series[f"P = {depth}"] = [*map(float, kept), *[None] * (max(DEPTHS) - depth)]
    return Section(
        title="Schedule: what is in flight and what is stale",
        text=(
            "At step T stage S of P takes mini-batch T - S + 1 forward, then T - 2P + S backward, and updates its weights."
            " Simulated are N mini-batches, every forward and backward a unit of time; the steps are those that the engine"
            " ended, in flight is the most that a stage has taken forward and not yet backward, and stale by how many"
            " mini-batches the weights of a forward are behind at most. No weights are stashed."
        ),
        heads=("P", "N", "steps, N + 2P - 1", "simulated", "in flight, 2P - 2S + 2", "simulated",
               "stale, 2P - 2S + 1", "simulated"),
        rows=tuple(rows),
        figure=Figure(
            title="mini-batches in flight", x=[str(number + 1) for number in range(max(DEPTHS))], x_label="stage S",
            y_label="mini-batches", series=series, kind="lines",
        ),
    )  # fmt: skip


def partitions(graph: LayerGraph) -> Section:
    """The published stages beside the best."""
    batch = BATCHES[-1]
    found = {"published": pipeline_model(graph, starts=STARTS, batch=batch)}
    for balance in ("memory", "macs"):
        found[f"least {balance}"] = pipeline_model(graph, stages=4, batch=batch, balance=balance)
    rows = [
        (
            name,
            ", ".join(stage.layers[0] for stage in own.stages),
            f"{max(stage.memory_bytes for stage in own.stages) / 1e6:.1f}",
            f"{own.memory_bytes / 1e6:.1f}",
            f"{max(stage.macs for stage in own.stages) / 1e9:.2f}",
            f"{sum(stage.sent_bytes + stage.returned_bytes for stage in own.stages) / 1e6:.2f}",
        )
        for name, own in found.items()
    ]
    return Section(
        title="Stages: the published ones and the best",
        text=(
            f"Not in the paper: four stages at batch {batch} whose fullest holds least, or whose busiest multiplies"
            " least, over all partitions of the network's layers, with what hypar counts. The published stages are close to"
            " the least arithmetic; the first holds most, as most is in flight there."
        ),
        heads=(
            "stages",
            "first layers",
            "MB in the fullest stage",
            "MB in all",
            "GMAC in the busiest",
            "MB sent",
        ),
        rows=tuple(rows),
    )


def convergence() -> Section:
    """What cannot be computed."""
    return Section(
        title="Convergence: published only",
        text=(
            "The paper trains the network, with the stale weights of the schedule, and states a factor of"
            f" {CONVERGENCE} in convergence for four stages against four threads. That is measured; nothing here stands"
            " beside it."
        ),
    )


plugin: Reproduction = LayerBlockPipeline()
