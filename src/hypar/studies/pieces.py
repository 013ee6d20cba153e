"""A stored plan lowered to its program, and what its devices compute, as problems that are written for the mappers of one accelerator."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from hypar.errors import OptionError, PlanError, suggestion
from hypar.files.text import make_folder, write
from hypar.machine.compute_models.base import LocalShape
from hypar.machine.work import as_matrices
from hypar.network.graph import LayerGraph
from hypar.network.layer import Layer
from hypar.network.nodes import computed_again, kept_in_shards
from hypar.ops.nest import PHASES, Nest
from hypar.ops.run import Piece
from hypar.plan.plan import Plan, read_plan
from hypar.plan.records import origin_of
from hypar.planning.replay import require_layers
from hypar.planning.sources import as_planned, network_of
from hypar.program.lowering import Compute, Program, layouts_of, lower
from hypar.registry import load_plugin
from hypar.sharding.conventions import MOVED

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


class Entry(NamedTuple):
    """A problem as it is written for a tool: a row of one file that begins with ``head``, or without one a file of its own.

    A device computes what is written several ``times``: once for each sample or group that the format cannot express.
    """

    name: str
    text: str
    times: int = 1
    head: str = ""


class Exported(NamedTuple):
    """The problems that are written, each with its form; those that cannot be, each with the reason; the one file, if there is one."""

    entries: tuple[tuple[Problem, Entry], ...]
    refused: tuple[tuple[Problem, str], ...]
    text: str


def opened(plan: Plan | str | Path, model: LayerGraph | str | Path | None = None) -> tuple[Plan, LayerGraph]:
    """Return a stored plan and its network with its mini-batch, whose layers allow its choices; raises ``InputError``."""
    plan = plan if isinstance(plan, Plan) else read_plan(plan)
    graph = as_planned(plan, network_of(plan, model))
    require_layers(plan, graph)
    return plan, graph


def lowered(plan: Plan, graph: LayerGraph, convention: str = MOVED, hint: str = "") -> Program:
    """Lower a plan to the program of a microbatch; raises ``PlanError`` with a hint where it would be too large."""
    # The tables say which device holds which index of each dim, of activations and errors of each layer.
    rows = [graph.batch + sum(layer.shape.values()) for layer in graph.layers]
    if (entries := plan.num_devices * 3 * sum(rows)) > MOST_ENTRIES:
        found = f"to count a step of {graph.name!r} on {plan.num_devices:,} devices takes {entries:,} entries"
        raise PlanError(str(origin_of(plan).file), found, f"at most {MOST_ENTRIES:,}", hint)
    own, again = graph.with_batch(graph.batch // plan.microbatches), plan.training.recompute
    by = computed_again(graph.layers, again), kept_in_shards(graph.layers, again)
    return lower(own, *layouts_of(plan), convention, plan.zero, *by)


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
        whole = LocalShape(sizes=as_matrices(nest, dict(sizes)), windows=nest.windows, words={}, macs=macs)
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


def export_plan(
    plan: Plan | str | Path,
    output: str | Path | None = None,
    *,
    format: str = "scale_sim",  # noqa: A002 (the word of the command line)
    layer: str = "*",
    phase: str | None = None,
    model: LayerGraph | str | Path | None = None,
) -> Exported:
    """Write the pieces that the devices of a plan compute for another tool.

    Args:
        plan: the plan, or its file.
        output: the file; for a format of one file for each problem the folder, which is made. Without it nothing is written.
        format: ``scale_sim``, ``scale_sim_gemm``, ``timeloop``, or another plug-in of ``exports``.
        layer: name of the layer, or a pattern, as ``conv*``.
        phase: ``forward``, ``backward`` or ``gradient`` alone; all that the format can express if it is not given.
        model: the network or its file, if the plan's model name does not find it.

    Raises:
        InputError: a file cannot be read or written, or the request is not possible.
    """
    entry_of: Callable[[Problem], Entry | str] = load_plugin("exports", format)
    if phase is not None and phase not in PHASES:
        raise OptionError("phase", f"found {phase!r}", ", ".join(PHASES))
    asked = [own for own in problems_of(plan, model=model, layer=layer) if phase in {None, own.phase}]
    found = [(problem, entry_of(problem)) for problem in asked]
    entries = tuple((problem, own) for problem, own in found if isinstance(own, Entry))
    refused = tuple((problem, own) for problem, own in found if isinstance(own, str))
    if not entries:
        problem, reason = refused[0]
        raise OptionError("format", f"{problem.name} cannot be expressed: {reason}", "another format")
    texts = {entry.name: entry.text for _, entry in entries}
    if head := entries[0][1].head:
        texts = {"": "".join(f"{line}\n" for line in (head, *(own.text for _, own in entries)))}
    elif output is not None:
        make_folder(Path(output))
    for name, text in texts.items() if output is not None else ():
        write(Path(output or "", name), text)
    return Exported(entries, refused, texts.get("", ""))
