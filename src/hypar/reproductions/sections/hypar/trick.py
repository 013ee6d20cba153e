"""HyPar's section 6.5.2 and Figure 13: one weird trick on single layers of VGG-E."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.evaluation import joules
from hypar.graph import LayerGraph, build_graph
from hypar.hardware import load_machine
from hypar.ops.input import Input
from hypar.planner import plan_model
from hypar.plots import Figure
from hypar.reproductions.base import Section, beside
from hypar.score import totals_of
from hypar.spec import LayerSpec, ModelSpec

if TYPE_CHECKING:
    from hypar.evaluation import Evaluation


def figure_13(ran: Evaluation) -> Section:
    """One weird trick on single layers of VGG-E."""
    rows, faster, saved = [], [], []
    for layer, batch in (("conv5_4", 32), ("fc3", 4096)):
        graph = alone(ran.graphs["vgg-e"], layer, batch)
        for levels in (2, 3, 4):
            machine = load_machine(ran.hardware, {"devices": 2**levels})
            trick, ours = (
                totals_of(plan_model(graph, levels=levels, strategy=name, hardware=machine).score)
                for name in ("owt", "hypar")
            )
            faster.append(trick.time_s / ours.time_s)
            saved.append(joules(trick) / joules(ours))
            what = f"{layer}, batch {batch}, {levels} levels"
            rows.append((what, "", f"{faster[-1]:.2f}", "", "", f"{saved[-1]:.2f}", ""))
    mean = sum(faster) / len(faster)
    return Section(
        title="Figure 13: HyPar over one weird trick",
        text=(
            "Single layers of VGG-E: a convolution of its last block with batch 32, where the trick is dp, and fc3 with"
            " batch 4096, where it is mp, on arrays of 4, 8 and 16 devices that share 25.6 Gb/s. The plain mean of these"
            " six is nearest to the published ones. With the batches exchanged both do the same, and all ratios are 1."
        ),
        heads=("", "performance published", "performance", "ratio", "energy published", "energy", "ratio"),
        rows=(
            *rows,
            ("mean", *beside(1.62, mean), *beside(1.22, sum(saved) / len(saved))),
            ("most", *beside(2.40, max(faster)), "", f"{max(saved):.2f}", ""),
        ),
        figure=Figure(
            title="HyPar over one weird trick", x=[row[0] for row in rows], x_label="", y_label="trick over HyPar",
            series={"performance": faster, "energy": saved},
        ),
    )  # fmt: skip


def alone(graph: LayerGraph, name: str, batch: int) -> LayerGraph:
    """A network of one layer of another, reading what it reads there."""
    layer = next(layer for layer in graph.layers if layer.name == name)
    source = LayerSpec(
        name="input", op_name="input", op=Input(**layer.input_shapes[0]), inputs=(), where=name
    )
    own = LayerSpec(name=name, op_name=layer.op_name, op=layer.op, inputs=("input",), where=name)
    return build_graph(
        ModelSpec(name=name, source=graph.source, batch=batch, dtype=graph.dtype, layers=(source, own))
    )
