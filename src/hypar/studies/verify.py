"""Run one training step of a stored plan on simulated devices, and hold it against one device and against its counts.

The bytes that devices hold are read off a run. The walk over a stage's layers is that of a score, with all rules of memory that
training frameworks obey; the sizes of arrays are the elements that each device had of them, which steps name as ``lowering`` does.
What no run has is counted otherwise: a backward phase needs what its op keeps, as autograd saves it, though a kernel may compute the
same from what the op has read, and what arrives, or is summed in place of terms, lies in one buffer until then.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hypar.activity import tell
from hypar.document import Result
from hypar.errors import OptionError, PlanError, UnknownNameError
from hypar.execution.exchange import shares
from hypar.execution.simulator import most_elements
from hypar.execution.verify import Verification, counted, verify_program
from hypar.machine.machine import Machine
from hypar.network.graph import LayerGraph
from hypar.network.nodes import PlanGraph, computed_again, kept_in_shards
from hypar.network.training import Formats, formats_of
from hypar.ops.nest import PHASES
from hypar.plan.diff import Change, changes_between
from hypar.plan.plan import Plan
from hypar.plan.records import FLUSHES, origin_of
from hypar.planning.replay import ScoredStep, run_step
from hypar.planning.resolved import Resolved, cost_convention, score_convention
from hypar.planning.sources import machine_of, times_of, wrong_in
from hypar.planning.uneven.tree import branch_of
from hypar.program.lowering import Item, Program
from hypar.schedule.lanes import WEIGHT, Piece, level_name
from hypar.schedule.lifetimes import Arrays
from hypar.schedule.memory import layers_in_order
from hypar.sharding.amounts.counted import SEAM
from hypar.sharding.conventions import CONVENTIONS, DIRECT, FUSED, MOVED, PAPER
from hypar.sharding.layout import Numbers
from hypar.sharding.tree import Device, Level, Node, Stages
from hypar.studies.check import near, priced
from hypar.studies.pieces import lowered, opened
from hypar.studies.shrink import changes_of, shrunk

MOST_ELEMENTS, MANY_ELEMENTS, ROUNDING = 2**28, 2**22, 1e-9
"""Elements that all devices hold at once at most, 2 GiB; those from which a run takes so long that a smaller network is
proposed; and the relative difference of a number that a search rounded, or added up in another order."""

LESS, ALL = ("try --shrink or a smaller --batch", "try a smaller --batch"), "all"

UNCOUNTED = frozenset({"bias", "statistics"})
"""The tensors that have no memory of their own in a plan."""

Bytes = NDArray[np.float64]
"""Bytes, or elements, on each device, ``[devices]``."""

TENSORS = {
    ALL: (*PHASES, WEIGHT), "activations": ("forward",), "errors": ("backward",), "gradients": ("gradient",), "weights": (WEIGHT,),
}  # fmt: skip
"""What moves in which phases: tensors between layers, with sums of them."""


class Transfer(NamedTuple):
    """A transfer at one level: what it is for, and the bytes that all devices receive.

    ``counted`` is by the program, ``moved`` in the run: None if nothing was run.
    """

    item: Item
    level: str
    counted: int
    moved: int | None


class Held(NamedTuple):
    """The memory of the fullest device of a group, a stage or ``all``: the bytes that a score says, and those that it held."""

    group: str
    said: float
    held: float

    @property
    def more(self) -> bool:
        """Whether a device held more than the score says."""
        return self.held > self.said * (1 + ROUNDING)


class Received(NamedTuple):
    """The bytes that all devices receive at a level, as ``H1`` or ``stages``, of a tensor of ``TENSORS`` or of all.

    ``planned`` is by the count of the plan's cost, ``counted`` by the program, ``moved`` in the run: None if nothing was run.
    """

    level: str
    tensor: str
    planned: float
    counted: int
    moved: int | None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Verified(Result):
    """What a training step of a plan on simulated devices shows.

    Attributes:
        batch: samples of the mini-batch that was run or counted.
        convention, planned_by: the conventions by which the program was lowered, and ``planned`` is counted.
        levels, tensors: the bytes of each level, outermost first, and of each tensor that moves at it.
        transfers: every transfer at each level that it crosses.
        changes: the results that the plan states, its cost, stages and score, that are other ones when counted again.
        numbers: the numbers, held against one device; None if the program was only counted.
        memory: what the fullest device of each group, or of each stage, held; nothing without a run, or without a machine.
        notes: what differs between the plan and what was run.
    """

    _document: ClassVar[str] = "verification"

    plan: Plan
    batch: int
    devices: int
    convention: str
    planned_by: str
    levels: tuple[Received, ...]
    tensors: tuple[Received, ...]
    transfers: tuple[Transfer, ...]
    changes: tuple[Change, ...]
    numbers: Verification | None
    memory: tuple[Held, ...]
    notes: tuple[str, ...]

    @property
    def mismatches(self) -> tuple[Transfer, ...]:
        """The transfers that moved other bytes than were counted; none of a correct program."""
        return tuple(each for each in self.transfers if each.moved not in {None, each.counted})

    @property
    def fuller(self) -> tuple[Held, ...]:
        """The groups or stages with a device that held more than their score says; of uneven splits a score says it roughly."""
        return () if self.plan.uneven else tuple(each for each in self.memory if each.more)

    @property
    def ok(self) -> bool:
        """Whether numbers agree, levels moved what was counted, no device held more than was said, and results are as stated."""
        wrong = self.mismatches or self.changes or self.fuller
        return not wrong and (self.numbers is None or self.numbers.error_below is not None)


def verify_plan(
    plan: Plan | str | Path,
    *,
    model: LayerGraph | str | Path | None = None,
    hardware: str | Path | None = None,
    batch: int | None = None,
    shrink: bool = False,
    convention: str | None = None,
    count: bool = False,
) -> Verified:
    """Run one training step of a plan on simulated devices, and compare it with one device and with the plan's count.

    The cost and the score that the plan states are counted again at its own size.

    Args:
        plan: the plan, or its file.
        model: the network or its file, if the plan's model name does not find it.
        hardware: the hardware file of the plan's score, if its name does not find it.
        batch: samples in the mini-batch; the plan's own if not given, or with ``shrink`` the fewest.
        shrink: whether to run a smaller network with the same cuts.
        convention: ``moved``, ``fused`` or ``direct``: what becomes of partial sums; by default as the plan's cost counts,
            and ``moved`` for one that counts by ``paper``. ``paper`` runs as ``moved`` and plans as the papers count.
        count: whether to count alone and run nothing.

    Raises:
        InputError: a file cannot be read, the plan is for another network, or the run would be too large.

    Examples:
        >>> import hypar
        >>> found = verify_plan(hypar.plan_model("lenet-c", levels=2), shrink=True)
        >>> found.ok, [level.moved == level.counted for level in found.levels]
        (True, [True, True])
    """
    if convention is not None and convention not in CONVENTIONS:
        raise UnknownNameError("convention", str(convention), CONVENTIONS)
    plan, whole = opened(plan, model)
    _require_fresh_weights(plan)
    machine = machine_of(plan, hardware)
    own = cost_convention(plan)
    run_by, planned_by = runs_by(convention or own), PAPER if convention == PAPER else own
    graph = _sized(plan, whole, batch, shrink=shrink)
    tell(f"lowering {graph.name} by {plan.strategy} over {plan.num_devices} devices")
    program = lowered(plan, graph, run_by, LESS[shrink])
    numbers = None if count else _run(plan, program, shrink=shrink)
    memory: list[Held] = []
    if numbers is not None and machine is not None and plan.score is not None:
        memory = held_by(_scored(plan, graph, machine, run_by), program, numbers.elements, numbers.arrived)
    tell(f"comparing the counts of {graph.name}")
    changes = changes_between(plan, priced(plan, Resolved.of(plan, machine, times_of(plan)), whole))
    levels = _levels(plan, len(program.places.parts))
    transfers = [*_transfers(plan, program, numbers, levels)]
    received = [*_received(levels, transfers, _planned(plan, graph, machine, planned_by), ran=not count)]
    return Verified(
        plan=plan, batch=graph.batch, devices=plan.num_devices, convention=run_by, planned_by=planned_by,
        levels=tuple(each for each in received if each.tensor == ALL),
        tensors=tuple(each for each in received if each.tensor != ALL),
        transfers=tuple(transfers),
        changes=tuple(change for change in changes if not near(change, ROUNDING)),
        numbers=numbers, memory=tuple(memory), notes=tuple(_notes(plan, whole, graph)),
    )  # fmt: skip


def _require_fresh_weights(plan: Plan) -> None:
    if plan.stages is not None and plan.staged and not FLUSHES[plan.stages.schedule]:
        flushing = ", ".join(name for name, flushes in FLUSHES.items() if flushes)
        found = f"found {plan.stages.schedule!r}, whose weights are stale: no step equals one device's"
        raise wrong_in(plan, "stages.schedule", found, f"a schedule that flushes: {flushing}")


def runs_by(convention: str) -> str:
    """Return the convention of the program of a plan that is counted by one: no execution moves what papers count."""
    return convention if convention in {FUSED, DIRECT} else MOVED


def _sized(plan: Plan, whole: LayerGraph, batch: int | None, *, shrink: bool) -> LayerGraph:
    """Return the network with the mini-batch that is asked for, or a smaller one with the same cuts; raises ``OptionError``."""
    graph, parts = whole if batch is None else whole.with_batch(batch), plan.microbatches
    if graph.batch % parts:
        raise OptionError("batch", f"found {graph.batch:,}", f"a multiple of the plan's {parts} microbatches")
    return shrunk(plan, whole, parts, batch) if shrink else graph


def _run(plan: Plan, program: Program, *, shrink: bool) -> Verification:
    """Run the program of a microbatch; raises ``PlanError`` where it would be too large."""
    name, elements = program.graph.name, most_elements(program)
    if elements > MOST_ELEMENTS:
        found = f"to run a step of {name!r} on {plan.num_devices:,} devices takes {elements:,} elements"
        hint = f"{LESS[shrink]}, or --count to count alone"
        raise PlanError(str(origin_of(plan).file), found, f"at most {MOST_ELEMENTS:,}", hint)
    faster = " (--shrink runs a smaller network)" if elements > MANY_ELEMENTS and not shrink else ""
    tell(f"running {name} on {plan.num_devices} simulated devices, and on one{faster}")
    return verify_program(program, microbatches=plan.microbatches)


def _levels(plan: Plan, count: int) -> list[str]:
    if plan.stages is None or not plan.staged:
        return [*map(level_name, range(count))]
    outside = plan.stages.outside or 0
    return [*map(level_name, (*range(outside), SEAM, *range(outside, count - 1)))]


def _transfers(
    plan: Plan, program: Program, numbers: Verification | None, levels: Sequence[str]
) -> Iterator[Transfer]:
    formats = formats_of(plan.training.precision, program.graph.element_bytes)
    alone = ((*own, None) for own in counted(program, plan.microbatches))
    for item, own, ran in alone if numbers is None else numbers.transfers:
        size = formats.of(item.phase)
        for at, level in enumerate(levels):
            received = None if ran is None else size * int(ran[at])
            if own[at] or received:
                yield Transfer(item, level, size * int(own[at]), received)


def _received(
    levels: Sequence[str], transfers: Sequence[Transfer], planned: Sequence[Piece], *, ran: bool
) -> Iterator[Received]:
    """Yield the bytes of each level, and of each tensor that moves there, by what is planned, counted and moved."""
    for level, (tensor, phases) in product(levels, TENSORS.items()):
        own = [each for each in transfers if each.level == level and each.item.phase in phases]
        amounts = [own.num_bytes for own in planned if level_name(own.level) == level and own.phase in phases]
        if tensor == ALL or own or any(amounts):
            moved = sum(each.moved or 0 for each in own) if ran else None
            yield Received(level, tensor, math.fsum(amounts), sum(each.counted for each in own), moved)


def _planned(plan: Plan, graph: LayerGraph, machine: Machine | None, by: str) -> list[Piece]:
    request = replace(Resolved.of(plan, machine), counted=by)
    if machine is None:
        ((lane,), _) = branch_of(plan, request, graph).lanes()
        return [piece for pieces in (*lane.inner, *lane.outer) for piece in pieces]
    # Another convention may count gradients that are in no chunk, and chunks change no amount.
    whole = plan.model_copy(update={"chunks": None})
    return [piece for piece in run_step(whole, request, graph).step.pieces if piece.collective]


def _scored(plan: Plan, graph: LayerGraph, machine: Machine, run_by: str) -> ScoredStep:
    """Return the step of the network that is run; chunks of one that is counted otherwise are unknown."""
    own = score_convention(plan)
    alike = runs_by(own) == run_by
    request = replace(Resolved.of(plan, machine), counted=own if alike else run_by)
    return run_step(plan if alike else plan.model_copy(update={"chunks": None}), request, graph)


def _notes(plan: Plan, whole: LayerGraph, graph: LayerGraph) -> Iterator[str]:
    if changes := changes_of(whole, graph):
        yield f"smaller than planned: {', '.join(changes)}"
    if plan.uneven:
        yield "shares that are not of whole elements are rounded by the largest remainder"
    if (parts := plan.microbatches) > 1:
        yield f"{parts} microbatches of {graph.batch // parts:,} samples"


# Memory


def held_by(
    ran: ScoredStep, program: Program, elements: Mapping[str, Numbers], arrived: Mapping[int, Numbers]
) -> list[Held]:
    """Return what each group or stage of a scored step, of the network that was run, held in the run of a microbatch.

    ``elements`` has those that each device had of every array, by the array's name; ``arrived`` those that it received for each
    transfer, by its number, ``[levels, devices]``.
    """
    plan, score = ran.plan, ran.score
    places, formats = _places(plan.root), formats_of(plan.training.precision, program.graph.element_bytes)
    order, ops = sorted({*places}), [*map(layers_in_order, ran.lanes)]
    lanes = np.array([order.index(place) for place in places])
    stages = np.array([stage for stage, _ in places])
    chunks = [frozenset(chunk) for chunk in plan.chunks.layers] if plan.chunks else []
    found, whole = _weights(program, program.graph.nodes(plan.graph), elements, formats, score.optimizer)
    buffers = _buffers(program, arrived, stages, chunks, formats)
    for number, (lane, own) in enumerate(zip(ran.lanes, ops, strict=True)):
        nodes = [node for part in lane.place.parts or (lane,) for node in part.graph.layers]
        again, shards = (of(nodes, plan.training.recompute) for of in (computed_again, kept_in_shards))
        arrays = Arrays(own, program.fragments, formats, elements, whole, again, shards)
        course, kinds = arrays.course(len(lane.place.parts) or 1), arrays.kinds[0]
        room = np.maximum(buffers, course.entering[kinds])
        found += (lanes == number) * (course.held(lane.place.moments)[1][kinds] + room)
    said = [(group.group, group.memory_bytes) for group in score.groups or ()] or [
        ("all", score.memory_bytes)
    ]
    return [Held(*own, float(found[lanes == number].max())) for number, own in enumerate(said)]


def _places(node: Node | None) -> list[tuple[int, tuple[int, ...]]]:
    """Return the stage of each device, and the parts of uneven splits in which it lies."""
    if node is None or isinstance(node, Device):
        return [(0, ())]
    if isinstance(node, Level) and node.split.sides is None:
        return _places(node.below[0]) * node.split.ways
    parts = [(part, own) for part, own in enumerate(node.below) if own is not None]
    below = [(part, *place) for part, own in parts for place in _places(own)]
    if isinstance(node, Stages):
        return [(part, path) for part, _, path in below]
    return [(stage, (part, *path)) for part, stage, path in below]


def _weights(
    program: Program, nodes: PlanGraph, elements: Mapping[str, Numbers], formats: Formats, optimizer: str
) -> tuple[Bytes, dict[tuple[str, str], Bytes]]:
    """Return the bytes of weights, gradients and optimizer state on each device, and the weights in shares, as of ``Arrays``."""
    weighted, found = {node.name for node in nodes.layers if node.weighted}, np.zeros(program.places.devices)
    summed = {step.target: step for step in program.transfers.values() if step.item.phase == "gradient"}
    whole = dict[tuple[str, str], Bytes]()
    for step in program.updates:
        if step.layer in weighted and step.parameter not in UNCOUNTED:
            name, gradient, updated = step.layer, step.holding, step.rest or step.holding
            if step.gradient in summed and not summed[step.gradient].once:
                gradient, terms = updated, elements[f"d terms {name} {step.parameter}"]
                whole[name, "gradient"] = (formats.gradient * terms).astype(float)
                if (needed := elements.get(f"W forward {name}")) is not None:
                    whole[name, "weight"] = (formats.weight * needed).astype(float)
            found += formats.weight * step.holding.elements + formats.gradient * gradient.elements
            found += formats.kept(optimizer) * updated.elements
    return found, whole


def _buffers(
    program: Program,
    arrived: Mapping[int, Numbers],
    stages: Numbers,
    chunks: Sequence[frozenset[str]],
    formats: Formats,
) -> Bytes:
    """Return the room in bytes of each device for the largest transfer in its stage, from what has ``arrived``, ``[levels, devices]``.

    A transfer is what arrives for one tensor or one chunk of gradients at a level, as a collective is called for one of these.
    """
    together: dict[object, Bytes] = {}
    for number, step in program.transfers.items():
        item, moved = step.item, step.transfer
        if item.tensor in UNCOUNTED:
            continue
        key: object = number
        if item.phase == "gradient":
            key = next((chunk for chunk in chunks if item.layer in chunk), number)
        # Between stages no device has elements at both ends.
        if moved.kind != "add" and not moved.have.meets(moved.need):
            continue
        for at, own in enumerate(shares(program.places, step, arrived[number], stages)):
            together[at, key] = together.get((at, key), 0) + formats.of(item.phase) * own
    return np.asarray(np.max([np.zeros(program.places.devices), *together.values()], axis=0))
