"""HyPar's sections 1 to 4 and 6.1: counts, worked examples, Tables 1 and 2, and inference."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from hypar.machine.load import load_machine
from hypar.network.build import build_graph
from hypar.network.ops.conv import Conv
from hypar.network.ops.input import Input
from hypar.network.ops.linear import Linear
from hypar.network.spec.expansion import LayerSpec
from hypar.network.spec.load import ModelSpec
from hypar.planning.planner import plan_model
from hypar.sharding.conventions import PAPER
from hypar.sharding.placement import partial_results, placement
from hypar.sharding.redistribution import received
from hypar.studies.page import Section
from hypar.studies.sections.hypar.networks import LEVELS, NETWORKS, bars

if TYPE_CHECKING:
    from hypar.network.graph import LayerGraph
    from hypar.network.ops.base import Op
    from hypar.studies.evaluation import Evaluation

EXAMPLES = {"fully connected, 70 to 100": (56.0, 25.6), "convolution, 12x12x20 to 8x8x50": (200.0, 819.0)}
"""Section 3.4: kB between two accelerators at batch 32, by dp and by mp."""

COUNTS = {
    "operations of AlexNet on an image, 10^9": (1.0, 1),
    "weighted layers, fewest": (4, 0),
    "weighted layers, most": (19, 0),
    "plans of Lenet-c": (65_536, 0),
    "plans of VGG-A, 10^12": (17.6, 1),
    "Gop/s of a processing unit": (84.0, 1),
    "Gb/s of all links": (25.6, 1),
}
"""Numbers of sections 1, 6.1 and 6.3, each with its number of decimals."""

TABLE_1 = {"dp": {"weight": "1", "output": "0"}, "mp": {"weight": "0", "output": "1"}}
"""Fractions of A(dW) and of A(F) that each of two accelerators reads inside a layer."""

TABLE_2 = {
    ("dp", "dp"): ("0", "0"),
    ("dp", "mp"): ("1/4", "1/4"),
    ("mp", "mp"): ("0", "1/2"),
    ("mp", "dp"): ("0", "1/2"),
}
"""Fractions of A(F) and of A(E) that each of two accelerators reads between a layer and the next."""

DIMS = {"dp": "batch", "mp": "in_channels"}
EQUAL = (Fraction(1, 2), Fraction(1, 2))


def one_layer(source: Input, name: str, op_name: str, op: Op, batch: int) -> LayerGraph:
    """Build a network of one weighted layer."""
    layers = (
        LayerSpec(name="input", op_name="input", op=source, inputs=(), where=name),
        LayerSpec(name=name, op_name=op_name, op=op, inputs=("input",), where=name),
    )
    return build_graph(ModelSpec(name=name, source="one layer", batch=batch, dtype="float32", layers=layers))


def examples() -> dict[str, LayerGraph]:
    """Build the two layers of the worked examples."""
    linear, conv = Linear(out_features=100), Conv(out_channels=50, kernel=(5, 5))
    image = Input(channels=20, height=12, width=12)
    graphs = (
        one_layer(Input(channels=70), "fc", "linear", linear, 32),
        one_layer(image, "conv", "conv", conv, 32),
    )
    return dict(zip(EXAMPLES, graphs, strict=True))


def counts(ran: Evaluation) -> Section:
    """Count the paper's quantities of networks, spaces and machine."""
    weighted = {name: graph.num_weighted for name, graph in ran.graphs.items()}
    machine = load_machine(ran.hardware)
    (links,) = load_machine(ran.hardware, {"bandwidth": "link"}).tiers
    ours = (
        ran.graphs["alexnet"].macs() / 1e9,
        min(weighted.values()),
        max(weighted.values()),
        2 ** (LEVELS * weighted["lenet-c"]),
        2 ** (LEVELS * weighted["vgg-a"]) / 1e12,
        machine.compute.flop_per_s(1) / 1e9,
        8 * links.devices * links.bytes_per_s / 1e9,
    )
    rows = tuple(
        (what, f"{published:,.{digits}f}", f"{own:,.{digits}f}")
        for (what, (published, digits)), own in zip(COUNTS.items(), ours, strict=True)
    )
    return Section(
        title="Sections 1 and 6: what is counted of networks and machine",
        text=(
            "The paper's 10^9 operations of AlexNet are rounded; ours are multiply-accumulates, of convolutions without"
            " groups. A processing unit is 168 elements that multiply and add at 250 MHz; all links are those of the 16"
            " leaves."
        ),
        heads=("", "published", "ours"),
        rows=rows,
    )


def amounts(_ran: Evaluation) -> Section:
    """Compute the worked examples and both tables."""
    rows: list[tuple[str, ...]] = []
    for (what, published), graph in zip(EXAMPLES.items(), examples().values(), strict=True):
        for strategy, known in zip(DIMS, published, strict=True):
            own = plan_model(graph, levels=1, strategy=strategy, convention=PAPER).cost.value / 1e3
            rows.append((f"kB, {what}, {strategy}", f"{known:g}", f"{own:g}"))
    layer = examples()["fully connected, 70 to 100"].contracted.layers[0].einsum
    for strategy, parts in TABLE_1.items():
        partial = partial_results(layer, DIMS[strategy])
        rows += [
            (
                f"Table 1, {strategy}, A({'dW' if tensor == 'weight' else 'F'})",
                known,
                str(int(tensor in partial)),
            )
            for tensor, known in parts.items()
        ]
    for (maker, reader), cells in TABLE_2.items():
        made = placement(layer, DIMS[maker], "output")
        read = placement(layer, DIMS[reader], "input")
        both = (("F", received(made, read, EQUAL)[0]), ("E", received(read, made, EQUAL)[0]))
        rows += [
            (f"Table 2, {maker}-{reader}, A({tensor})", known, str(own))
            for (tensor, own), known in zip(both, cells, strict=True)
        ]
    return Section(
        title="Section 3: worked examples, Tables 1 and 2",
        text=(
            "kB that two accelerators read of each other in a step of batch 32, and the parts of a tensor that each of them"
            " reads, inside a layer (Table 1) and from a layer to the next (Table 2). No table is stored: the parts follow"
            " from what a choice needs of a tensor and does not hold. The paper prints 819.2 kB without its last digit."
        ),
        heads=("", "published", "ours"),
        rows=tuple(rows),
    )


def inference(ran: Evaluation) -> Section:
    """Count the bytes of the forward phase alone."""
    moved = {
        strategy: {
            name: math.fsum(
                move.total_bytes
                for move in ran.step(name, strategy).moves
                if move is not None and move.phase == "forward"
            )
            / 1e9
            for name in NETWORKS
        }
        for strategy in ran.strategies
    }
    none = sum(not amount for amount in moved["dp"].values())
    own = [name for name in NETWORKS if not moved["hypar"][name]]
    return Section(
        title="Section 3.3: inference",
        text=(
            "The paper concludes from its tables that dp is best for inference. GB that all devices receive in the forward"
            f" phase of one mini-batch: dp moves nothing on {none} of the {len(NETWORKS)} networks, so no plan moves less."
            f" HyPar's plans for training move nothing on {' and '.join(own)} alone. The conclusion is one of bytes: dp keeps"
            " every weight on every device, and needs a mini-batch of as many samples as devices; the paper says neither."
        ),
        heads=("network", "dp", "mp", "HyPar"),
        rows=tuple((name, *(f"{amounts[name]:.3f}" for amounts in moved.values())) for name in NETWORKS),
        figure=bars("Communication of inference", "GB a mini-batch", moved, log=True),
    )
