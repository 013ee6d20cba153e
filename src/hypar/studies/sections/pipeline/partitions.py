"""Other stages of the pipeline's network, and bounds on their speed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.files.figures import Figure
from hypar.studies.page import Section
from hypar.studies.sections.pipeline.blocks import balanced, divided
from hypar.studies.sections.pipeline.published import BATCHES, CONVERGENCE, SPEEDUPS, STARTS, STARTS_OF

if TYPE_CHECKING:
    from hypar.network.graph import LayerGraph
    from hypar.studies.sections.pipeline.blocks import Blocks


def partitions(graph: LayerGraph) -> Section:
    """Compare the published stages with the best."""
    batch = BATCHES[-1]
    graph = graph.with_batch(batch)
    found = {"published": divided(graph, STARTS)}
    for name, quantity in (("memory", "memory_bytes"), ("macs", "macs")):
        found[f"least {name}"] = balanced(graph, 4, quantity)
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
            " least, over all partitions of the network's layers, counted with what stages receive. The published stages are close to"
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


def speedup(found: Blocks) -> float:
    """Return the speedup over one worker of stages whose step is as long as the busiest one's arithmetic."""
    work = [stage.macs for stage in found.stages]
    return sum(work) / max(work)


def convergence(graph: LayerGraph) -> Section:
    """Compare the published speedups with the bounds from the stages' arithmetic."""
    rows = []
    own, best, equal = [1.0], [1.0], [1.0]
    for count, published in SPEEDUPS.items():
        own.append(speedup(divided(graph, STARTS_OF[count])))
        best.append(speedup(balanced(graph, count, "macs")))
        equal.append(float(count))
        rows.append((str(count), f"{published:.1f}", f"{published / count:.0%}", f"{count:.1f}", f"{own[-1]:.2f}",
                     f"{best[-1]:.2f}"))  # fmt: skip
    busiest = max(layer.macs() for layer in graph.layers) / graph.macs()
    return Section(
        title="Figures 7 and 8: convergence",
        text=(
            "How many times faster than one worker a pipeline reaches a miss rate of 75%. It is measured by training with the"
            " stale weights of the schedule and only published; the same is the factor of"
            f" {CONVERGENCE} in convergence for four stages against four threads. What can be computed is how long a step is:"
            " a mini-batch is through in each, and where all stages are equally long it is a P-th of one worker's. With identical"
            f" workers a step is as long as its busiest stage. One convolution has {busiest:.0%} of the network's"
            f" multiply-accumulates, so no division into whole layers is more than {1 / busiest:.2f} times faster; the"
            " published speed-ups of four and eight stages are above that, and so count steps of equal stages, not time on"
            " identical workers. The paper's last section names the imbalance as open."
        ),
        heads=("stages", "published", "published, of P", "equal stages", "these stages", "best stages"),
        rows=tuple(rows),
        figure=Figure(
            title="Times faster than one worker", x=["1", *map(str, SPEEDUPS)], x_label="stages",
            y_label="times faster", series={"published": [1.0, *SPEEDUPS.values()], "equal stages": equal, "these stages": own, "best stages": best}, kind="lines",
        ),
    )  # fmt: skip
