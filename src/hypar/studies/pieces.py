"""The contractions that the devices of a plan compute, as problems for the mappers of one accelerator."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from hypar.errors import OptionError, PlanError, suggestion
from hypar.execution.lifetimes import MOST_ENTRIES, entries_of
from hypar.machine.compute_models.base import LocalShape
from hypar.machine.machine import as_matrices
from hypar.network.graph import LayerGraph
from hypar.network.training import PHASES
from hypar.plan.plan import Plan, read_plan
from hypar.planning.replay import choices_of
from hypar.planning.sources import as_planned, model_of, network_of
from hypar.program.of_plan import program_of
from hypar.program.steps import Compute

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hypar.network.layer import Layer
    from hypar.program.holding import Piece


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A phase of a layer's piece on one device.

    Attributes:
        layer: name of the layer.
        phase: ``forward``, ``backward`` or ``gradient``.
        number: number of the piece among the different pieces of the layer, the largest is 1.
        pieces: number of different pieces.
        devices: number of devices with such a piece.
        shape: the piece as a convolution, or as a product of matrices where it has no windows; no words are counted.
        kind: the phase of that convolution with the same arithmetic: another than ``phase`` for a transposed convolution.
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
        """Return the layer's name, with the piece where there are several, and the phase where it is not forward."""
        piece = f"-piece{self.number}" if self.pieces > 1 else ""
        return self.layer + piece + (f"-{self.phase}" if self.phase != "forward" else "")

    @property
    def macs(self) -> int:
        """Return the multiply-accumulates of one device; those that meet padding count too."""
        return self.shape.padded_macs


def problems_of(
    plan: Plan | str | Path, *, model: LayerGraph | str | Path | None = None, layer: str = "*"
) -> tuple[Problem, ...]:
    """Return the problems of a plan: for each layer that multiplies by a weight its different pieces, the largest first, in three phases.

    A piece has the sizes that the program of the plan gives a device, all cuts made, of one microbatch with stages.

    Args:
        plan: the plan, or its file.
        model: the network or its file, if the plan's model name does not find it.
        layer: name of the layer, or a pattern, as ``conv*``.

    Raises:
        InputError: a file cannot be read, the plan is for another network or too large, or there is no such layer.
    """
    file = Path("plan") if isinstance(plan, Plan) else Path(plan)
    stored = plan if isinstance(plan, Plan) else read_plan(plan)
    if isinstance(plan, Plan) or isinstance(model, LayerGraph):
        graph = as_planned(stored, network_of(stored, model), file)
    else:
        graph = as_planned(stored, model_of(stored, file, model), file)
    choices_of(stored, graph, file)
    weighted = [each.name for each in graph.layers if _multiplies(each)]
    if not any(fnmatchcase(name, layer) for name in weighted):
        hint = suggestion(layer, weighted)
        raise OptionError("layer", f"no layer that multiplies by a weight is named {layer!r}", hint=hint)
    parts = stored.stages.microbatches if stored.stages is not None and stored.staged else 1
    entries = entries_of(graph, stored.num_devices)
    if entries > MOST_ENTRIES:
        found = f"the pieces of {graph.name!r} on {stored.num_devices:,} devices take {entries:,} entries"
        raise PlanError(str(file), found, f"at most {MOST_ENTRIES:,}")
    return tuple(_problems(stored, graph.with_batch(graph.batch // parts), layer))


def _multiplies(layer: Layer) -> bool:
    """Return whether a layer multiplies by a weight, as an embedding does not."""
    return layer.op.weighted and layer.einsum(1).macs > 0


def _problems(plan: Plan, graph: LayerGraph, pattern: str) -> Iterator[Problem]:
    layers = {layer.name: layer for layer in graph.layers if _multiplies(layer)}
    for step in program_of(plan, graph).steps:
        if not isinstance(step, Compute) or step.kind != "forward" or step.layer not in layers:
            continue
        if fnmatchcase(step.layer, pattern):
            counted = Counter(
                _sizes(layers[step.layer], graph.batch, piece) for piece in step.pieces if piece
            )
            yield from _of_layer(layers[step.layer], graph.batch, counted)


def _sizes(layer: Layer, batch: int, piece: Piece) -> tuple[tuple[str, int], ...]:
    """Return the loop counts of a piece by op dim: along a transposed window those of the inputs that it reads."""
    einsum = layer.einsum(batch)
    found = {dim: len(indices) for dim, indices in piece.items()}
    for dim, window in einsum.windows.items():
        low, high = window.reads(int(piece[dim][0]), int(piece[dim][-1]) + 1)
        read = min(high, einsum.input_sizes[dim]) - max(low, 0)
        found[dim] = window.steps(read, found[dim])
    return tuple(({**einsum.sizes, **found}).items())


def _of_layer(
    layer: Layer, batch: int, counted: Mapping[tuple[tuple[str, int], ...], int]
) -> Iterator[Problem]:
    """Yield the problems of a layer, given the number of devices with each piece."""
    einsum = layer.einsum(batch)
    ranked = sorted(counted, key=lambda sizes: -math.prod(size for _, size in sizes))
    for number, sizes in enumerate(ranked, 1):
        whole = LocalShape(
            sizes=as_matrices(einsum, dict(sizes)),
            windows=einsum.windows,
            words={},
            macs=math.prod(size for _, size in sizes),
        )
        for phase in PHASES:
            shape, kind = whole.as_convolution(phase)
            yield Problem(
                layer=layer.name,
                phase=phase,
                number=number,
                pieces=len(ranked),
                devices=counted[sizes],
                shape=shape,
                kind=kind,
            )
