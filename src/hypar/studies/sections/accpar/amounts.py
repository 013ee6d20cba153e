"""AccPar's amounts inside a layer and between two layers."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from hypar.network.training import PHASES
from hypar.sharding.placement import Partial, partial_results, placement
from hypar.sharding.redistribution import received, resolve
from hypar.studies.page import Section
from hypar.studies.sections.accpar.runs import TYPES

if TYPE_CHECKING:
    from hypar.studies.sections.accpar.runs import Runs

SHARE = Fraction(3, 10)

INSIDE = {
    "batch": ("gradient", "A(W)"),
    "in_channels": ("forward", "A(F_out)"),
    "out_channels": ("backward", "A(E_in)"),
}
"""The phase after which each type adds up, and the tensor that it adds up."""

LETTERS = {"weight": "W", "output": "F_out", "input": "E_in"}
CELLS = {
    "batch": (("0", "0"), ("ab", "ab"), ("b", "0")),
    "in_channels": (("0", "b"), ("0", "b"), ("0", "0")),
    "out_channels": (("ab", "ab"), ("0", "0"), ("b", "0")),
}
"""Fractions of A(F) and A(E) received by the group with share a, b = 1 - a: rows layer l, columns layer l + 1."""


def amounts(runs: Runs) -> Section:
    """Compare the nine cells of the paper's table."""
    layer = next(layer for layer in runs.graphs["alexnet"].contracted.layers if layer.name == "fc2").einsum
    values, both = {"0": Fraction(0), "b": 1 - SHARE, "ab": SHARE * (1 - SHARE)}, (SHARE, 1 - SHARE)
    rows = []
    for made, cells in CELLS.items():
        for read, cell in zip(TYPES, cells, strict=True):
            before, after = placement(layer, made, "output"), placement(layer, read, "input")
            ours = (received(before, after, both)[0], received(after, before, both)[0])
            numbers = (f"{float(part):.2f}" for part in (*(values[word] for word in cell), *ours))
            rows.append((f"{TYPES[made]} to {TYPES[read]}", *cell, *numbers))
    at = f"{float(SHARE)}"
    return Section(
        title="Amounts: between two layers",
        text=(
            "The fractions of A(F) and of A(E) that a group with share a receives, b = 1 - a, between a layer of one type and the"
            f" next of another: the paper's nine cells, their values at a = {at}, and ours there. The summary at hand prints"
            " the three that are nothing and b A(F) for I to III, and groups the others with these; it calls the first cell"
            " 1 to 2 where its letter (a) is that of 1 to 1, and III once type 4. Ours follow from what a type needs of a"
            " tensor and does not hold; no table is stored. A test has them at other shares, and the plans of"
            " seven levels for AlexNet with its pools folded into convolutions, as the paper's tables take it."
        ),
        heads=("types", "A(F), published", "A(E)", f"A(F) at {at}", "A(E)", "A(F), ours", "A(E)"),
        rows=tuple(rows),
    )


def inside(runs: Runs) -> Section:
    """Derive the sums of each type inside a layer."""
    layer = next(layer for layer in runs.graphs["alexnet"].contracted.layers if layer.name == "fc2").einsum
    phases = {phase.result: name for name, phase in PHASES.items()}
    parts = received(Partial(), resolve(Partial()), (SHARE, 1 - SHARE))
    rows = []
    for dim, known in INSIDE.items():
        (tensor,) = partial_results(layer, dim)
        own = (phases[tensor], f"A({LETTERS[tensor]})", *(str(part) for part in parts))
        rows.append((TYPES[dim], *known, *own))
    return Section(
        title="Amounts: inside a layer",
        text=(
            "The tensor of which each group has but terms, and the phase that leaves them: each group receives the whole of it,"
            f" whatever its share, here {float(SHARE)} and {float(1 - SHARE)}. Ours follow from the dim that a phase sums"
            " over."
        ),
        heads=("type", "phase, published", "amount, published", "phase", "amount", "fractions of it that one group receives",
               "the other"),
        rows=tuple(rows),
    )  # fmt: skip
