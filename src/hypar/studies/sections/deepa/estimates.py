"""DeePa's Tables 2 and 3: estimates for the choices of one layer, and the rates that their inputs imply."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import TYPE_CHECKING

from hypar.costs.deepa import transfer_copies, update_copies
from hypar.sharding.dims import grid_word
from hypar.sharding.placement import Choice, grid
from hypar.sharding.space import parse_space
from hypar.studies.page import Section
from hypar.studies.sections.deepa.networks import ALEXNET
from hypar.studies.sections.deepa.plans import SPACE, WAYS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.network.contraction import CutLayer
    from hypar.network.graph import LayerGraph

K80_PEAK = 4.37e12
"""flop/s of one of the two GPUs of a Tesla K80 in single precision (its datasheet: 8.74 TFLOP/s a card)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimates:
    """A table of estimates for the choices of a layer, in ms.

    Attributes:
        number: number of the table.
        model: the network.
        layers: the layers that it applies to, all equal.
        send: X, the input over one link.
        weight: W, the weight over one link.
        whole: C, a layer on one device.
        note: further statements of the paper about the table.
        measured: computation of choices for which the paper states a measured time.
        rows: published transfer, computation and update of some choices.
    """

    number: int
    model: str
    layers: tuple[str, ...]
    send: float
    weight: float
    whole: float
    note: str = ""
    measured: Mapping[Choice, float]
    rows: Mapping[Choice, tuple[float, float, float]]

    def ours(self, choice: Choice, layer: CutLayer) -> tuple[float, float, float]:
        """Return transfer from a layer that is cut only in the batch, computation and update."""
        compute = self.measured.get(choice, self.whole / choice.devices(WAYS))
        before = grid({"batch": WAYS})
        return (
            transfer_copies(before, choice) * self.send,
            compute,
            update_copies(layer, choice) * self.weight,
        )

    def totals(self, layer: CutLayer, options: tuple[Choice, ...]) -> dict[Choice, float]:
        """Return the sum of the estimates for each choice."""
        return {choice: math.fsum(self.ours(choice, layer)) for choice in options}


TABLE_2 = Estimates(
    number=2,
    model=ALEXNET,
    layers=("fc1",),
    send=8.4,
    weight=67.2,
    whole=20.4,
    note="Published: 5 times less than other approaches, which is the factor over n1 c16, owt.",
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
    layers=("conv5_1", "conv5_2", "conv5_3"),
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


def options_of(estimates: Estimates, graph: LayerGraph) -> tuple[CutLayer, tuple[Choice, ...]]:
    """Return the first layer of a table and all of its choices."""
    layer = next(layer for layer in graph.operators.layers if layer.name == estimates.layers[0])
    return layer, parse_space(SPACE).choices(layer, WAYS, idle=True)


def implied(estimates: Estimates, graph: LayerGraph) -> tuple[float, float, float]:
    """Return the bytes a second implied by X and W of one layer, and the flop a second implied by its C."""
    einsum = options_of(estimates, graph)[0].einsum
    sent, updated = (einsum.input_elements, einsum.elements("weight"))
    flop = einsum.step_flop
    size = graph.element_bytes * 1e3
    return sent * size / estimates.send, updated * size / estimates.weight, flop * 1e3 / estimates.whole


def table(estimates: Estimates, graph: LayerGraph) -> Section:
    """Compare published and our estimates of some choices, and the best of all."""
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
    names = " to ".join(dict.fromkeys((estimates.layers[0], estimates.layers[-1])))
    return Section(
        title=f"Table {estimates.number}: choices of {names} of {estimates.model}",
        text=(
            f"In ms, after a layer that is cut in the batch over {WAYS} devices: X = {estimates.send},"
            f" W = {estimates.weight}, C = {estimates.whole}.{given} Of all {len(options)} choices the best is"
            f" {grid_word(best.as_degrees())}; the best of those printed is {grid_word(printed.as_degrees())}."
            f" {_compared(estimates, totals)} {estimates.note} {_implied(estimates, graph)}"
        ),
        heads=("choice", "transfer, published", "ours", "compute, published", "ours", "update, published", "ours",
               "sum, published", "ours"),
        rows=tuple(rows),
    )  # fmt: skip


def _compared(estimates: Estimates, totals: Mapping[Choice, float]) -> str:
    """Compare the costs of the printed choices of all devices with the best."""
    best = min(totals.values())
    parts = (
        f"{grid_word(choice.as_degrees())} costs {totals[choice] / best:.1f} times the best"
        for choice in estimates.rows
        if choice.devices(WAYS) == WAYS
    )
    return f"{', '.join(parts)}."


def _implied(estimates: Estimates, graph: LayerGraph) -> str:
    """State the bandwidths and the speed that the inputs imply."""
    sent, updated, speed = implied(estimates, graph)
    count = len(estimates.layers)
    all_of = (
        f" Were they those of all {count} layers, W would be {count * updated / 1e9:.2f} GB/s and C"
        f" {count * speed / 1e12:.1f} TFLOP/s."
    )
    return (
        f"By the shape of one layer X is {sent / 1e9:.2f} GB/s, W {updated / 1e9:.2f} GB/s and C {speed / 1e12:.1f}"
        f" TFLOP/s, where a K80 GPU has a peak of {K80_PEAK / 1e12:.2f}.{all_of if count > 1 else ''}"
    )


def _short(number: float) -> str:
    digits = "0.01" if 0 < number < 2 else "0.1" if number < 1000 else "1"
    return str(Decimal(str(round(number, 9))).quantize(Decimal(digits), ROUND_HALF_UP))
