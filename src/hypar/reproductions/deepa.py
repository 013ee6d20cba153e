"""DeePa (2018): Tables 2 and 3, what Figure 8 counts, and what else of its evaluation can be computed.

Published numbers stand here to be printed beside ours; no computation reads them but X, W and C of the two tables,
which are measured times and given.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import TYPE_CHECKING

from hypar.costs.base import structure
from hypar.costs.deepa import transfer_copies, update_copies
from hypar.graph import LayerGraph, load_model
from hypar.hardware import load_machine
from hypar.placement import Choice, grid
from hypar.planner import plan_model
from hypar.plots import Figure
from hypar.reduction import reduced, trace
from hypar.reproductions.base import Page, Reproduction, Section
from hypar.space import parse_space
from hypar.words import grid_word

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hypar.graph import CutLayer
    from hypar.hardware import Machine
    from hypar.plan import Plan
    from hypar.score import Score

BATCH, WAYS = 512, 16
MACHINE = "p100-4x4"
NETWORKS = ("alexnet", "vgg16", "inception-v3")
IMAGE, OWT, OWN = "batch", "conv:batch linear:out_channels", "batch*out_channels*height*width"
"""The spaces of image parallelism, of one weird trick with DeePa's dims, and of DeePa."""

COUNTS = (1, 2, 4, 8, 16)
"""Devices."""

OWT_FACTOR, OWN_FACTOR, MOST = (1.05, 8.4), (1.2, 2.7), 23
"""Figure 8: how many times less one weird trick moves than image parallelism, DeePa than it, and both at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimates:
    """A table of estimates for the choices of one layer, in ms.

    Attributes:
        number: of the table.
        model: the network.
        layer: the layer.
        send: X, the input over one link.
        weight: W, the weight over one link.
        whole: C, the layer on one device.
        measured: computation of choices for which the paper states a measured time.
        rows: published transfer, computation and update of some choices.
    """

    number: int
    model: str
    layer: str
    send: float
    weight: float
    whole: float
    measured: Mapping[Choice, float]
    rows: Mapping[Choice, tuple[float, float, float]]

    def ours(self, choice: Choice, layer: CutLayer) -> tuple[float, float, float]:
        """Transfer from a layer that is cut in the batch alone, computation, update."""
        compute = self.measured.get(choice, self.whole / choice.devices(WAYS))
        before = grid({"batch": WAYS})
        return (
            transfer_copies(before, choice) * self.send,
            compute,
            update_copies(layer, choice) * self.weight,
        )

    def totals(self, layer: CutLayer, options: tuple[Choice, ...]) -> dict[Choice, float]:
        """The sum for each of some choices."""
        return {choice: math.fsum(self.ours(choice, layer)) for choice in options}


TABLE_2 = Estimates(
    number=2,
    model="alexnet",
    layer="fc1",
    send=8.4,
    weight=67.2,
    whole=20.4,
    measured={},
    rows={
        grid({"batch": 16}): (0, 1.28, 1075),
        grid({"out_channels": 16}): (134.4, 1.28, 0),
        grid({"out_channels": 4}): (33.6, 5.1, 0),
        grid({"out_channels": 2}): (16.8, 10.2, 0),
        grid({"out_channels": 1}): (8.4, 20.4, 0),
    },
)
TABLE_3 = Estimates(
    number=3,
    model="vgg16",
    layer="conv5_3",
    send=39.2,
    weight=8.4,
    whole=254.75,
    measured={grid({"height": 2, "width": 2}): 54.7},
    rows={
        grid({"batch": 16}): (0, 15.9, 134.4),
        grid({"batch": 8}): (39.2, 31.8, 67.2),
        grid({"batch": 4}): (39.2, 63.7, 33.6),
        grid({"height": 2, "width": 2}): (39.2, 54.7, 33.6),
        grid({"batch": 2}): (39.2, 127.4, 16.8),
    },
)


class Deepa:
    """The paper's tables, and what of its figures follows from the shapes."""

    def run(self, progress: Callable[[int, int], None]) -> Page:
        """Two tables, bytes moved, throughput, eliminations."""
        graphs = {name: load_model(name).with_batch(BATCH) for name in NETWORKS}
        machine = load_machine(MACHINE)
        sections = []
        parts: tuple[Callable[[], Section], ...] = (
            lambda: table(TABLE_2, graphs["alexnet"]),
            lambda: table(TABLE_3, graphs["vgg16"]),
            lambda: figure_8(graphs, machine),
            lambda: throughput(graphs, machine),
            lambda: eliminations(graphs),
        )
        for done, part in enumerate(parts, 1):
            sections.append(part())
            progress(done, len(parts))
        return Page(
            name="deepa",
            title="DeePa (2018): published and ours",
            text=(
                "Written by `hypar reproduce deepa` from the model files `alexnet`, `vgg16` and `inception-v3` and the"
                f" machine `{MACHINE}`; a test computes it again. Batch {BATCH} on {WAYS} devices unless said otherwise."
                " X, W and C of the two tables are the paper's measurements and are given; everything else follows"
                " from shapes and the machine's file."
            ),
            sections=tuple(sections),
        )


def options_of(estimates: Estimates, graph: LayerGraph) -> tuple[CutLayer, tuple[Choice, ...]]:
    """The layer of a table and every choice that it has."""
    layer = next(layer for layer in graph.operators.layers if layer.name == estimates.layer)
    return layer, parse_space(OWN).choices(layer, WAYS, idle=True)


def table(estimates: Estimates, graph: LayerGraph) -> Section:
    """Published and our estimates of some choices, and the best of all."""
    layer, options = options_of(estimates, graph)
    totals = estimates.totals(layer, options)
    rows = [
        (
            grid_word(choice.as_degrees()),
            *(text for pair in zip(map(_short, published), map(_short, estimates.ours(choice, layer)), strict=True)
              for text in pair),
            _short(math.fsum(published)),
            _short(totals[choice]),
        )
        for choice, published in estimates.rows.items()
    ]  # fmt: skip
    best = min(totals, key=totals.__getitem__)
    printed = min(estimates.rows, key=lambda choice: math.fsum(estimates.rows[choice]))
    given = "".join(
        f" The time of {grid_word(one.as_degrees())} is measured, and given." for one in estimates.measured
    )
    return Section(
        title=f"Table {estimates.number}: choices of {estimates.layer} of {estimates.model}",
        text=(
            f"In ms, after a layer that is cut in the batch over {WAYS} devices: X = {estimates.send},"
            f" W = {estimates.weight}, C = {estimates.whole}.{given} Of all {len(options)} choices the best is"
            f" {grid_word(best.as_degrees())}; the best of those printed is {grid_word(printed.as_degrees())}."
        ),
        heads=("choice", "transfer, published", "ours", "compute, published", "ours", "update, published", "ours",
               "sum, published", "ours"),
        rows=tuple(rows),
    )  # fmt: skip


def figure_8(graphs: Mapping[str, LayerGraph], machine: Machine) -> Section:
    """Bytes that a step moves."""
    rows: list[tuple[str, ...]] = []
    series: dict[str, list[float]] = {name: [] for name in ("image", "owt", "deepa, serial", "deepa, exact")}
    for name, graph in graphs.items():
        found = moved(graph, machine)
        for key, number in found.items():
            series[key].append(number / 1e9)
        owt = found["image"] / found["owt"]
        rows.append((
            name, *(f"{number / 1e9:.3f}" for number in found.values()), f"{owt:.2f}",
            *(f"{found['owt'] / found[key]:.2f}" for key in ("deepa, serial", "deepa, exact")),
            f"{found['image'] / found['deepa, serial']:.1f}",
        ))  # fmt: skip
    low, high = OWT_FACTOR
    return Section(
        title="Figure 8: bytes moved",
        text=(
            f"GB that all devices receive in a step, each plan's counted directly, in whole elements. Published: one weird"
            f" trick (owt) moves {low} to {high} times less than image parallelism, DeePa {OWN_FACTOR[0]} to"
            f" {OWN_FACTOR[1]} times less than that, together up to {MOST} times. Image parallelism moves {2 * (WAYS - 1)} times the"
            " weights, so its factor over owt follows from how much of them lies in linear layers, less what owt moves"
            f" between those: Inception-v3 has one small one and gives the least factor. No reading found gives"
            f" {high} for one of these three. DeePa adds its estimates up as if all bytes went over one link, one device after another (`serial`): fewer"
            " devices then pay for the linear layers, and the factors are those published, AlexNet's in the last digit."
            " Where devices receive at the same time, as the engine has it (`exact`), all 16 are faster although they"
            " move more, and the plan is close to owt's."
        ),
        heads=("network", "image", "owt", "deepa, serial", "deepa, exact", "image over owt", "owt over serial",
               "owt over exact", "image over serial"),
        rows=tuple(rows),
        figure=Figure(title="bytes moved in a step", x=list(graphs), x_label="", y_label="GB", series=series),
    )  # fmt: skip


def moved(graph: LayerGraph, machine: Machine) -> dict[str, float]:
    """Bytes that all devices receive, by each way to cut."""
    plans = {
        "image": _plan(graph, machine, IMAGE),
        "owt": _plan(graph, machine, OWT),
        "deepa, serial": _plan(graph, machine, OWN, mode="serial"),
        "deepa, exact": _plan(graph, machine, OWN),
    }
    return {name: _scored(plan).communication_bytes for name, plan in plans.items()}


def throughput(graphs: Mapping[str, LayerGraph], machine: Machine) -> Section:
    """Images a second as the number of devices grows with the batch."""
    rows, series = [], {}
    for name, graph in graphs.items():
        for label, space in (("image", IMAGE), ("owt", OWT), ("deepa", OWN)):
            speeds = [
                _speed(graph.with_batch(BATCH // WAYS * count), machine, space, count) for count in COUNTS
            ]
            series[f"{name}, {label}"] = speeds
            rows.append(
                (name, label, *(f"{speed:,.0f}" for speed in speeds), f"{speeds[-1] / speeds[0]:.2f}")
            )
    return Section(
        title="Throughput: images a second",
        text=(
            f"What figures of the evaluation show, {BATCH // WAYS} images a device, as far as it can be computed: by the"
            " engine, without overlap, from the published peak of the devices at an assumed efficiency. The paper's"
            " own throughputs are measured, with kernels and libraries that no file here describes, so none stands"
            " beside these; what compares is how the three scale. A node has four devices: from eight on,"
            " InfiniBand joins the nodes."
        ),
        heads=("network", "cut", *(f"{count} device{'s' * (count > 1)}" for count in COUNTS), f"{COUNTS[-1]} over 1"),
        rows=tuple(rows),
        figure=Figure(
            title="images a second", x=[str(count) for count in COUNTS], x_label="devices", y_label="images a second",
            series=series, kind="lines", log=True,
        ),
    )  # fmt: skip


def eliminations(graphs: Mapping[str, LayerGraph]) -> Section:
    """What the two rules leave of each graph."""
    rows, space = [], parse_space(OWN)
    for name, graph in graphs.items():
        options = [(space.choices(layer, WAYS, idle=True),) for layer in graph.operators.layers]
        nodes = structure(graph.operators, options)
        rules, order = reduced(nodes), trace(nodes)
        kinds = [step.kind for step in rules.steps]
        numbers = (len(nodes.sizes), len(nodes.links), kinds.count("node"), kinds.count("edge"))
        largest = max(nodes.sizes)
        rows.append(
            (
                name,
                *map(str, numbers),
                str(len(rules.nodes)),
                str(largest),
                str(order.width),
                f"{order.largest:,}",
            )
        )
    return Section(
        title="Search: what the two rules leave",
        text=(
            "Node and edge elimination leave two nodes of each graph, as published. The search took the paper about 100"
            " ms for Inception-v3 on 16 devices without measuring; how long it takes here is in the benchmarks."
        ),
        heads=("network", "nodes", "edges", "node eliminations", "edge eliminations", "nodes left",
               "most choices of a node", "width", "largest table"),
        rows=tuple(rows),
    )  # fmt: skip


def _speed(graph: LayerGraph, machine: Machine, space: str, count: int) -> float:
    """Images a second on some devices."""
    if count == 1:
        # One device has nothing to divide: a level of two of which one works.
        plan = plan_model(graph, array=[2], strategy="deepa", hardware=machine, pins="*=batch1")
    else:
        plan = plan_model(graph, array=[count], strategy="deepa", space=space, hardware=machine)
    return graph.batch / _scored(plan).time_s


def _plan(graph: LayerGraph, machine: Machine, space: str, mode: str = "exact") -> Plan:
    """A plan of 16 ways."""
    return plan_model(graph, array=[WAYS], strategy="deepa", space=space, mode=mode, hardware=machine)


def _scored(plan: Plan) -> Score:
    """The score of a plan that was made for a machine."""
    assert plan.score is not None  # noqa: S101 (a machine was named, so there is one)
    return plan.score


def _short(number: float) -> str:
    """A time of the tables, as many digits as they print."""
    digits = "0.01" if 0 < number < 2 else "0.1" if number < 1000 else "1"
    return str(Decimal(str(round(number, 9))).quantize(Decimal(digits), ROUND_HALF_UP))


plugin: Reproduction = Deepa()
