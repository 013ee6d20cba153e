"""Run one training step of a stored plan on simulated devices, and hold it against one device and against its counts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple, cast

from hypar.activity import tell
from hypar.costs.base import convention_of, load_cost
from hypar.document import Result
from hypar.errors import InputError, OptionError, PlanError, UnknownNameError
from hypar.execution.lifetimes import MOST_ENTRIES, entries_of, exchanges_gradients, most_elements
from hypar.execution.verify import TOLERANCE, verify_program
from hypar.machine.setting import Setting
from hypar.plan.diff import changes_between
from hypar.plan.plan import Plan, read_plan
from hypar.plan.stages import FLUSHES
from hypar.planning.replay import choices_of, recosted, run_again, run_plan
from hypar.planning.resolved import Resolved
from hypar.planning.sources import as_planned, machine_of, network_of, scored_on, times_of
from hypar.program.of_plan import program_of
from hypar.schedule.lanes import Lane
from hypar.schedule.totals import level_name
from hypar.sharding.conventions import CONVENTIONS, DIRECT, FUSED, MOVED, PAPER
from hypar.studies.shrink import changes_of, shrunk

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from hypar.execution.verify import Verification
    from hypar.machine.heterogeneous import HeterogeneousMachine
    from hypar.machine.machine import Machine
    from hypar.network.graph import LayerGraph
    from hypar.plan.diff import Change
    from hypar.program.steps import Item, Program
    from hypar.schedule.moves import Move

    Elements = NDArray[np.int64]

MOST_ELEMENTS = 2**28
"""Elements that all simulated devices hold at once, at most: 2 GiB."""

BOUNDS = (1e-12, TOLERANCE)
"""Bounds of the errors that are stated; their digits depend on the processor and the number of threads."""

TENSORS = {"forward": "activations", "backward": "errors", "gradient": "gradients"}
"""What moves in each phase: tensors between layers, with sums of them."""


class Transfer(NamedTuple):
    """A transfer at one level: what it is for, and the bytes that all devices receive.

    ``counted`` is by the program, ``moved`` in the run: None if nothing was run.
    """

    item: Item
    level: str
    counted: int
    moved: int | None


class Received(NamedTuple):
    """The bytes that all devices receive at a level, as ``H1`` or ``stages``, of a tensor of ``TENSORS`` or of all.

    ``planned`` is by the count of the plan's cost, ``counted`` by the program, ``moved`` in the run: None if nothing was run.
    """

    level: str
    tensor: str
    planned: float
    counted: int
    moved: int | None


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers of a step on simulated devices, held against one device.

    Attributes:
        loss: the loss on the devices.
        expected_loss: the loss on one device.
        errors: the largest relative error of each trained tensor's gradient and updated values.
        zero: the trained tensors whose gradient is zero everywhere, so that it proves nothing.
    """

    loss: float
    expected_loss: float
    errors: dict[str, float]
    zero: tuple[str, ...]

    @property
    def worst_tensor(self) -> str:
        """The trained tensor with the largest error."""
        return max(self.errors, key=self.errors.__getitem__)

    @property
    def worst(self) -> float:
        """The largest relative error of a trained tensor."""
        return self.errors[self.worst_tensor]

    @property
    def error_below(self) -> float | None:
        """The least of ``BOUNDS`` that no error exceeds; None if one exceeds the tolerance."""
        loss_error = abs(self.loss - self.expected_loss) / (abs(self.expected_loss) or 1.0)
        return next((one for one in BOUNDS if loss_error <= one and self.worst <= one), None)

    @property
    def agree(self) -> bool:
        """Whether all numbers are those of one device."""
        return self.error_below is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified(Result):
    """What a training step of a plan on simulated devices shows.

    Attributes:
        plan: the plan.
        batch: samples of the mini-batch that was run or counted.
        devices: number of devices.
        convention: the convention by which the program was lowered.
        planned_by: the convention by which ``planned`` is counted.
        levels: the bytes of each level, outermost first.
        tensors: the same of each tensor that moves at a level.
        transfers: every transfer at each level that it crosses.
        changes: the results that the plan states, its cost, stages and score, that are other ones when counted again.
        numbers: the numbers; None if the program was only counted.
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
    numbers: Numbers | None
    notes: tuple[str, ...]

    @property
    def mismatches(self) -> tuple[Transfer, ...]:
        """The transfers that moved other bytes than were counted; none of a correct program."""
        return tuple(each for each in self.transfers if each.moved not in {None, each.counted})

    @property
    def ok(self) -> bool:
        """Whether nothing speaks against the plan: numbers agree, levels moved what was counted, and results are as stated."""
        return not (self.mismatches or self.changes) and (self.numbers is None or self.numbers.agree)


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
    file = Path("plan") if isinstance(plan, Plan) else Path(plan)
    plan = plan if isinstance(plan, Plan) else read_plan(plan)
    graph = as_planned(plan, network_of(plan, model), file)
    _require_fresh_weights(plan, file)
    choices_of(plan, graph, file)
    machine = scored_on(plan) if hardware is None else machine_of(plan, file, hardware)
    run = _Run(plan, file, graph, machine, convention)
    run.size(batch, shrink=shrink)
    run.lower(count=count)
    return run.result()


def _require_fresh_weights(plan: Plan, file: Path) -> None:
    """Refuse a schedule whose weights are stale.

    Raises:
        PlanError: the plan has one.
    """
    if plan.stages is not None and plan.staged and not FLUSHES[plan.stages.schedule]:
        flushing = ", ".join(name for name, flushes in FLUSHES.items() if flushes)
        found = f"found {plan.stages.schedule!r}, whose weights are stale: no step equals one device's"
        raise PlanError(f"{file}: stages.schedule", found, f"a schedule that flushes: {flushing}")


def counted_by(plan: Plan, file: Path) -> str:
    """Return the convention of a plan's cost.

    Raises:
        PlanError: the cost is unknown, or does not take the plan's parameters.
    """
    try:
        context = {"convention": plan.convention or PAPER}
        return convention_of(load_cost(plan.cost.name, plan.cost.parameters, context))
    except InputError as error:
        raise PlanError(f"{file}: cost", error.found, error.allowed, error.hint) from None


def runs_by(convention: str) -> str:
    """Return the convention of the program of a plan that is counted by one: no execution moves what papers count."""
    return convention if convention in {FUSED, DIRECT} else MOVED


class _Run:
    """A verification under way: a plan, its network and machine, the conventions of its count and of its program, its run."""

    def __init__(
        self,
        plan: Plan,
        file: Path,
        graph: LayerGraph,
        machine: Machine | HeterogeneousMachine | None,
        convention: str | None,
    ) -> None:
        """Take what is verified, whole."""
        own = counted_by(plan, file)
        self.plan, self.file, self.whole, self.machine = plan, file, graph, machine
        self.planned_by, self.run_by = PAPER if convention == PAPER else own, runs_by(convention or own)
        self.graph = graph
        self.found: Verification | None = None
        self.transfers: tuple[Transfer, ...] = ()
        staged = plan.stages if plan.staged else None
        self.microbatches = 1 if staged is None else staged.microbatches
        self.stage_level = None if staged is None else staged.outside or 0

    def size(self, batch: int | None, *, shrink: bool) -> None:
        """Take the mini-batch and, if asked to, a smaller network with the same cuts.

        Raises:
            OptionError: the mini-batch does not divide into the plan's microbatches.
        """
        self.graph = self.whole if batch is None else self.whole.with_batch(batch)
        if self.graph.batch % self.microbatches:
            allowed = f"a multiple of the plan's {self.microbatches} microbatches"
            raise OptionError("batch", f"found {self.graph.batch:,}", allowed)
        if shrink:
            self.graph = shrunk(self.plan, self.whole, self.microbatches, batch)

    def lower(self, *, count: bool) -> None:
        """Lower the plan, count it, and run it unless counting is enough.

        Raises:
            PlanError: it would be too large.
        """
        graph, devices = self.graph, self.plan.num_devices
        self._require("count", entries_of(graph, devices), MOST_ENTRIES, "entries")
        tell(f"lowering {graph.name} by {self.plan.strategy} over {devices} devices")
        program = program_of(self.plan, graph.with_batch(graph.batch // self.microbatches), self.run_by)
        if not count:
            self._require("run", most_elements(program), MOST_ELEMENTS, "elements")
            tell(f"running {graph.name} on {devices} simulated devices, and on one")
            self.found = verify_program(program, microbatches=self.microbatches)
        rows = self._rows(program)
        self.levels = self._names(len(rows[0][1]) if rows else len(self.plan.array))
        size = graph.element_bytes
        self.transfers = tuple(
            Transfer(item, name, size * int(counted[at]), None if count else size * int(moved[at]))
            for item, counted, moved in rows
            for at, name in enumerate(self.levels)
            if counted[at] or moved[at]
        )

    def _require(self, what: str, size: int, most: int, things: str) -> None:
        """Refuse what would be too large.

        Raises:
            PlanError: it would be.
        """
        if size > most:
            devices = f"{self.plan.num_devices:,} devices"
            found = f"to {what} a step of {self.graph.name!r} on {devices} takes {size:,} {things}"
            less = "--shrink or a smaller --batch"
            hint = f"try {less}, or --count to count alone" if what == "run" else f"try {less}"
            raise PlanError(str(self.file), found, f"at most {most:,}", hint)

    def _rows(self, program: Program) -> list[tuple[Item, Elements, Elements]]:
        """Return each transfer of a mini-batch with the elements that each level moves, by the count and in the run."""
        if self.found is not None:
            return [(each.item, each.counted, each.moved) for each in self.found.transfers]
        steps = [*program.transfers.values()]
        times = [1 if exchanges_gradients(step) else self.microbatches for step in steps]
        counts = [often * step.counted(program.places) for often, step in zip(times, steps, strict=True)]
        return [(step.item, own, own) for step, own in zip(steps, counts, strict=True)]

    def _names(self, levels: int) -> list[str]:
        if self.stage_level is None:
            return [f"H{level + 1}" for level in range(levels)]
        names = [f"H{level + 1}" for level in range(levels - 1)]
        return [*names[: self.stage_level], "stages", *names[self.stage_level :]]

    def result(self) -> Verified:
        """Return what was found."""
        tell(f"comparing the counts of {self.graph.name}")
        found = self.found
        tensors = tuple(self._received())
        return Verified(
            plan=self.plan,
            batch=self.graph.batch,
            devices=self.plan.num_devices,
            convention=self.run_by,
            planned_by=self.planned_by,
            levels=tuple(self._sum(name, tensors) for name in self.levels),
            tensors=tensors,
            transfers=self.transfers,
            changes=changes_between(self.plan, self._again()),
            numbers=None
            if found is None
            else Numbers(found.loss, found.expected_loss, found.errors, found.zero),
            notes=tuple(self._notes()),
        )

    def _received(self) -> Iterator[Received]:
        """Yield the bytes of each tensor that moves at a level, by what is planned, counted and moved."""
        planned: dict[tuple[str, str], list[float]] = {}
        for move in self._planned():
            planned.setdefault((level_name(move.level), move.phase), []).append(move.total_bytes)
        own: dict[tuple[str, str], list[Transfer]] = {}
        for transfer in self.transfers:
            own.setdefault((transfer.level, transfer.item.phase), []).append(transfer)
        for key in ((level, phase) for level in self.levels for phase in TENSORS):
            rows = own.get(key, [])
            moved = None if self.found is None else sum(each.moved or 0 for each in rows)
            amount = math.fsum(planned.get(key, []))
            if amount or rows:
                yield Received(key[0], TENSORS[key[1]], amount, sum(each.counted for each in rows), moved)

    def _sum(self, level: str, tensors: Sequence[Received]) -> Received:
        own = [each for each in tensors if each.level == level]
        moved = None if self.found is None else sum(each.moved or 0 for each in own)
        planned = math.fsum(each.planned for each in own)
        return Received(level, "all", planned, sum(each.counted for each in own), moved)

    def _planned(self) -> list[Move]:
        """Return the transfers of the plan's step as the convention of its cost counts them."""
        plan, by = self.plan, self.planned_by
        choices = [
            tuple(split.choice(layer) for split in plan.splits if layer in split.choices)
            for layer in plan.layers
        ]
        if self.machine is not None:
            request = replace(Resolved.of(plan, self.machine), counted=by)
            _, ran, _ = run_again(plan, request, self.graph, choices, str(self.file))
            return [move for move in ran.step.moves if move is not None]
        setting = Setting(
            machine=cast("Machine", _Free()),
            array=tuple(plan.array),
            element_bytes=self.graph.element_bytes,
            direct=by == DIRECT,
            convention=PAPER if by == DIRECT else by,
        )
        lane = Lane(self.graph.nodes(plan.graph), choices, setting)
        return [move for moves in (*lane.inner, *lane.outer) for move in moves]

    def _again(self) -> Plan:
        """Return the plan with its results counted again: its cost, and on the machine of its score stages and score."""
        plan, graph, machine = self.plan, self.whole, self.machine
        again = recosted(plan, graph, Resolved.of(plan, machine, times_of(plan)))
        if machine is None:
            return again
        ran = run_plan(plan, hardware=machine, model=graph)
        return again.model_copy(update={"score": ran.score, "stages": ran.stages or plan.stages})

    def _notes(self) -> Iterator[str]:
        """Yield what differs between the plan and what was run."""
        if changes := changes_of(self.whole, self.graph):
            yield f"smaller than planned: {', '.join(changes)}"
        if self.plan.uneven:
            yield "shares that are not of whole elements are rounded by the largest remainder"
        if self.microbatches > 1:
            yield f"{self.microbatches} microbatches of {self.graph.batch // self.microbatches:,} samples"


class _Free:
    """A machine whose links take no time: amounts do not depend on it."""

    measured = joins = None

    def links(self, array: Sequence[int]) -> list[_Free]:
        """Return a link for each level."""
        return [self] * len(array)

    def seconds(self, *_: object) -> float:
        """Return no time."""
        return 0.0
