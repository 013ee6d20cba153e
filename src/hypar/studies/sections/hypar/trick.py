"""HyPar's section 6.5.2 and Figure 13: one weird trick on single layers of VGG-E."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.files.figures import Figure
from hypar.machine.load import load_machine
from hypar.network.ops.input import Input
from hypar.plan.score import totals_of
from hypar.planning.planner import plan_model
from hypar.sharding.conventions import PAPER
from hypar.sharding.placement import divisor
from hypar.studies.evaluation import joules
from hypar.studies.page import Section, beside
from hypar.studies.sections.hypar.amounts import one_layer
from hypar.studies.sections.hypar.networks import LEVELS

if TYPE_CHECKING:
    from hypar.network.graph import LayerGraph
    from hypar.studies.evaluation import Evaluation

CASES = (("conv5_4", 32), ("fc3", 4096))
"""Layers of VGG-E, each with the batch at which HyPar departs from the trick."""

PRINTED = {"conv5_4": (2_359_296, 3_211_264, "mp"), "fc3": (4_096_000, 4_096_000, "dp")}
"""Section 6.5.2: A(dW), A(F) and the paper's conclusion for two accelerators."""


def figure_13(ran: Evaluation) -> Section:
    """Compare one weird trick with HyPar on single layers of VGG-E."""
    cases = over_trick(ran)
    faster, saved = ([case[part] for case in cases.values()] for part in (0, 1))
    rows = [(what, "", f"{own[0]:.2f}", "", "", f"{own[1]:.2f}", "") for what, own in cases.items()]
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


def over_trick(ran: Evaluation) -> dict[str, tuple[float, float]]:
    """Return the trick's time and energy over HyPar's on each array, layer by layer."""
    found = {}
    for layer, batch in CASES:
        graph = ran.typed(alone(ran.graphs["vgg-e"], layer, batch))
        for levels in (2, 3, 4):
            machine = load_machine(ran.hardware, {"devices": 2**levels})
            trick, ours = (
                totals_of(
                    plan_model(
                        graph, levels=levels, strategy=name, hardware=machine, convention=ran.convention
                    ).score
                )
                for name in ("owt", "hypar")
            )
            ratios = trick.time_s / ours.time_s, joules(trick) / joules(ours)
            found[f"{layer}, batch {batch}, {levels} levels"] = ratios
    return found


def inequality(ran: Evaluation) -> Section:
    """Compare the two amounts inside a layer, level by level, with HyPar's choice."""
    rows = []
    for name, batch in CASES:
        graph = alone(ran.graphs["vgg-e"], name, batch)
        (layer,) = graph.contracted.layers
        gradient, output = layer.elements("weight"), layer.elements("output")
        for level, choice in enumerate(plan_model(graph, levels=LEVELS, convention=PAPER).choices(name)):
            printed = PRINTED[name] if level == 0 else ()
            known = [f"{cell:,}" if isinstance(cell, int) else cell for cell in printed or ("",) * 3]
            less = "dp" if gradient < output else "mp" if output < gradient else "neither"
            own = "dp" if choice.divided == ("batch",) else "mp"
            cells = (f"{gradient:,}", f"{output:,}", less, own)
            rows.append((f"{name}, batch {batch}, H{level + 1}", *known[:2], *cells, known[2]))
            gradient //= divisor(layer.einsum, choice, "weight")
            output //= divisor(layer.einsum, choice, "output")
    return Section(
        title="Section 6.5.2: what is wrong with the trick",
        text=(
            "Elements that a group exchanges inside the layer: A(dW) under dp, A(F) under mp (the paper's Table 1). The paper"
            " prints both for two accelerators, as here. For conv5 it then argues that A(dW) is less than A(F) and that the"
            " layer should therefore be mp; by its own Table 1 the inequality says the opposite, dp, which is what the trick"
            " does. Its result stands all the same, but for another reason: below H1 the batch is halved and A(F) with it,"
            " and there HyPar changes to mp, which the trick does not. For fc3 the amounts tie and amounts between layers"
            " decide for dp, as the paper says; alone, as here, the layer has no neighbour, and the tie goes to the first"
            " choice, which is dp too. One level below mp is less, as the trick has it."
        ),
        heads=("layer and level", "A(dW) published", "A(F) published", "A(dW)", "A(F)", "less", "HyPar",
               "published choice"),
        rows=tuple(rows),
    )  # fmt: skip


def alone(graph: LayerGraph, name: str, batch: int) -> LayerGraph:
    """Build a network of a single layer of a network, with that layer's input."""
    layer = next(layer for layer in graph.layers if layer.name == name)
    return one_layer(Input.model_validate(dict(layer.input_shapes[0])), name, layer.op_name, layer.op, batch)
