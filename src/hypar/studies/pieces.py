"""A stored plan lowered to its program, and what its devices compute, as problems for the mappers of one accelerator."""

from __future__ import annotations

import math
from collections import Counter
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from hypar.errors import OptionError, PlanError, suggestion
from hypar.machine.compute_models.base import LocalShape
from hypar.machine.work import as_matrices
from hypar.ops.nest import PHASES, Nest
from hypar.plan.plan import Plan, read_plan
from hypar.plan.records import origin_of
from hypar.planning.replay import choices_of
from hypar.planning.sources import as_planned, network_of
from hypar.program.layouts import layouts_of
from hypar.program.lowering import Compute, Program, lower
from hypar.sharding.conventions import MOVED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from hypar.network.graph import LayerGraph
    from hypar.network.layer import Layer
    from hypar.ops.run import Piece

MOST_ENTRIES = 2**30
"""Entries at most of the tables that say which device holds what."""


class Problem(NamedTuple):
    """A phase, as ``forward``, of a layer's piece on one device: number ``number`` of its different ``pieces``, the largest first.

    So many ``devices`` have such a piece. Its ``shape`` is that of a convolution, or of a product of matrices where it has no
    windows, without words; ``kind`` is that convolution's phase of the same arithmetic, another one if it is transposed.
    """

    layer: str
    phase: str
    number: int
    pieces: int
    devices: int
    shape: LocalShape
    kind: str

    @property
    def name(self) -> str:
        """The layer's name, with the piece where there are several, and the phase where it is not forward."""
        piece = f"-piece{self.number}" if self.pieces > 1 else ""
        return self.layer + piece + (f"-{self.phase}" if self.phase != "forward" else "")

    @property
    def macs(self) -> int:
        """The multiply-accumulates of one device; those that meet padding count too."""
        return self.shape.padded_macs


def opened(plan: Plan | str | Path, model: LayerGraph | str | Path | None = None) -> tuple[Plan, LayerGraph]:
    """Return a stored plan and its network with its mini-batch, whose layers allow its choices; raises ``InputError``."""
    plan = plan if isinstance(plan, Plan) else read_plan(plan)
    graph = as_planned(plan, network_of(plan, model))
    choices_of(plan, graph)
    return plan, graph


def lowered(plan: Plan, graph: LayerGraph, convention: str = MOVED, hint: str = "") -> Program:
    """Lower a plan to the program of a microbatch; raises ``PlanError`` with a hint where it would be too large."""
    # The tables say which device holds which index of each dim, of activations and errors of each layer.
    rows = [graph.batch + sum(layer.shape.values()) for layer in graph.layers]
    if (entries := plan.num_devices * 3 * sum(rows)) > MOST_ENTRIES:
        found = f"to count a step of {graph.name!r} on {plan.num_devices:,} devices takes {entries:,} entries"
        raise PlanError(str(origin_of(plan).file), found, f"at most {MOST_ENTRIES:,}", hint)
    return lower(
        graph.with_batch(graph.batch // plan.microbatches),
        *layouts_of(plan),
        convention,
        plan.zero,
        plan.computed_again(graph.layers),
    )


def problems_of(
    plan: Plan | str | Path, *, model: LayerGraph | str | Path | None = None, layer: str = "*"
) -> list[Problem]:
    """Return the problems of a plan: for each layer that multiplies by a weight its different pieces, the largest first, in three phases.

    A piece has the sizes that the program of the plan gives a device, all cuts made, of one microbatch with stages. The
    arguments are those of ``export_plan``; raises ``InputError``.
    """
    stored, graph = opened(plan, model)
    weighted = [own for own in graph.layers if own.weighted and own.nest(1).macs]
    layers = {own.name: own for own in weighted if fnmatchcase(own.name, layer)}
    if not layers:
        hint = suggestion(layer, [own.name for own in weighted])
        raise OptionError("layer", f"no layer that multiplies by a weight is named {layer!r}", hint=hint)
    program = lowered(stored, graph)
    forward = (step for step in program.steps if isinstance(step, Compute) and step.kind == "forward")
    own = ((layers[step.layer], step.pieces) for step in forward if step.layer in layers)
    return [found for layer, pieces in own for found in _of_layer(layer, program.graph.batch, pieces)]


def _of_layer(layer: Layer, batch: int, pieces: Iterable[Piece | None]) -> Iterator[Problem]:
    nest = layer.nest(batch)
    counted = Counter(tuple(_sizes(nest, piece).items()) for piece in pieces if piece)
    ranked = sorted(counted, key=lambda sizes: -math.prod(size for _, size in sizes))
    for number, sizes in enumerate(ranked, 1):
        macs = math.prod(size for _, size in sizes)
        loops = as_matrices(nest, dict(sizes))
        whole = LocalShape(sizes=loops, windows=nest.windows, words={}, macs=macs)
        for phase in PHASES:
            shape, kind = whole.as_convolution(phase)
            yield Problem(layer.name, phase, number, len(ranked), counted[sizes], shape, kind)


def _sizes(nest: Nest, piece: Piece) -> dict[str, int]:
    """Return the loop counts of a piece by op dim: along a transposed window those of the inputs that it reads."""
    found = {**nest.sizes, **{dim: len(indices) for dim, indices in piece.items()}}
    for dim, window in nest.windows.items():
        if window.transposed:
            low, high = window.reads(int(piece[dim][0]), int(piece[dim][-1]) + 1)
            found[dim] = min(high, nest.input_sizes[dim]) - max(low, 0)
    return found
