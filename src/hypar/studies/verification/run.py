"""Run one training step of a stored plan on simulated devices, and hold it against one device and against its counts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hypar.activity import tell
from hypar.costs.base import convention_of, load_cost
from hypar.errors import InputError, OptionError, PlanError, UnknownNameError
from hypar.execution.lifetimes import entries_of, exchanges_gradients, most_elements
from hypar.execution.verify import verify_program
from hypar.network.graph import LayerGraph
from hypar.plan.plan import Plan, read_plan
from hypar.plan.splits import FLUSHES
from hypar.planning.replay import choices_of
from hypar.planning.sources import machine_of, model_of
from hypar.program.of_plan import cuts_of, program_of
from hypar.program.steps import Item
from hypar.sharding.conventions import CONVENTIONS, DIRECT, FUSED, MOVED, PAPER
from hypar.studies.verification.cases import Facts, Place
from hypar.studies.verification.planned import Amounts, by_products, planned, seam
from hypar.studies.verification.result import Difference, LevelBytes, Mismatch, Numbers, Verified
from hypar.studies.verification.shrink import changes_of, shrunk

if TYPE_CHECKING:
    from hypar.execution.verify import Checked, Verification
    from hypar.machine.heterogeneous import HeterogeneousMachine
    from hypar.machine.machine import Machine
    from hypar.program.steps import Program

Bytes = NDArray[np.int64]
"""Bytes, or elements, of each level."""

MOST_ELEMENTS = 2**28
"""Elements that all simulated devices hold at once, at most: 2 GiB."""

MOST_ENTRIES = 2**30
"""Entries at most of the tables that say which device holds what."""

ROUNDING = 1e-6
"""Relative difference of two amounts that counts as rounding."""


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

    Args:
        plan: the plan, or its file.
        model: the network or its file, if the plan's model name does not find it.
        hardware: the hardware file of the plan's score, if its name does not find it; needed for stages and for
            heterogeneous machines alone.
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
    asked = _asked(plan, model, hardware, convention)
    return _Verification(asked, asked.sized(batch, shrink=shrink), count=count).result()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What is to be verified.

    Attributes:
        plan: the plan.
        file: its file.
        graph: its network.
        machine: the machine of its score, where its count needs one.
        planned_by: the convention of its count.
        run_by: the convention of its program.
    """

    plan: Plan
    file: Path
    graph: LayerGraph
    machine: Machine | HeterogeneousMachine | None
    planned_by: str
    run_by: str

    @property
    def microbatches(self) -> int:
        """The number of microbatches of a mini-batch."""
        return self.plan.stages.microbatches if self.plan.stages is not None and self.plan.staged else 1

    def sized(self, batch: int | None, *, shrink: bool) -> LayerGraph:
        """Return the network that is run.

        Raises:
            OptionError: the mini-batch does not divide into the plan's microbatches.
        """
        own = self.graph if batch is None else self.graph.with_batch(batch)
        if own.batch % self.microbatches:
            allowed = f"a multiple of the plan's {self.microbatches} microbatches"
            raise OptionError("batch", f"found {own.batch:,}", allowed)
        return shrunk(self.plan, self.graph, self.microbatches, batch) if shrink else own


def _asked(
    given: Plan | str | Path,
    model: LayerGraph | str | Path | None,
    hardware: str | Path | None,
    convention: str | None,
) -> _Asked:
    """Read what is to be verified, and refuse what cannot be.

    Raises:
        InputError: a file cannot be read, the plan is for another network, or its weights would be stale.
    """
    if convention is not None and convention not in CONVENTIONS:
        raise UnknownNameError("convention", str(convention), CONVENTIONS)
    file = Path("plan") if isinstance(given, Plan) else Path(given)
    plan = given if isinstance(given, Plan) else read_plan(given)
    graph = model if isinstance(model, LayerGraph) else model_of(plan, file, model)
    graph = graph.with_batch(plan.model.batch)
    if graph.digest != plan.model.digest:
        found = f"model {graph.name!r} is not what was planned: it has changed, or is another"
        raise PlanError(f"{file}: model.digest", found, hint="plan it again, or name its file with --model")
    if plan.stages is not None and plan.staged and not FLUSHES[plan.stages.schedule]:
        flushing = ", ".join(name for name, flushes in FLUSHES.items() if flushes)
        found = f"found {plan.stages.schedule!r}, whose weights are stale: no step equals one device's"
        raise PlanError(f"{file}: stages.schedule", found, f"a schedule that flushes: {flushing}")
    choices_of(plan, graph, file)
    needed = plan.heterogeneous or plan.staged
    own = _convention(plan, file)
    run_by = convention or own
    return _Asked(
        plan=plan,
        file=file,
        graph=graph,
        machine=machine_of(plan, file, hardware) if needed else None,
        planned_by=PAPER if convention == PAPER else own,
        run_by=run_by if run_by in {FUSED, DIRECT} else MOVED,
    )


def _convention(plan: Plan, file: Path) -> str:
    """Return the convention of a plan's cost.

    Raises:
        PlanError: the cost is unknown, or does not take the plan's parameters.
    """
    try:
        context = {"convention": getattr(plan, "convention", None) or PAPER}
        return convention_of(load_cost(plan.cost.name, plan.cost.parameters, context))
    except InputError as error:
        raise PlanError(f"{file}: cost", error.found, error.allowed, error.hint) from None


class _Verification:
    """A verification under way: the program of a plan, its counts, and its run."""

    def __init__(self, asked: _Asked, graph: LayerGraph, *, count: bool) -> None:
        """Lower the plan, count it, and run it unless counting is enough.

        Raises:
            PlanError: it would be too large.
        """
        self.asked, self.graph = asked, graph
        plan, parts = asked.plan, asked.microbatches
        self._require("count", entries_of(graph, plan.num_devices), MOST_ENTRIES, "entries")
        tell(f"lowering {graph.name} by {plan.strategy} over {plan.num_devices} devices")
        program = program_of(plan, graph.with_batch(graph.batch // parts), asked.run_by)
        self.counts = _counts(program, parts)
        self.found: Verification | None = None
        if not count:
            self._require("run", most_elements(program), MOST_ELEMENTS, "elements")
            tell(f"running {graph.name} on {plan.num_devices} simulated devices, and on one")
            self.found = verify_program(program, microbatches=parts)

    def _require(self, what: str, size: int, most: int, things: str) -> None:
        """Refuse what would be too large.

        Raises:
            PlanError: it would be.
        """
        if size > most:
            devices = f"{self.asked.plan.num_devices:,} devices"
            found = f"to {what} a step of {self.graph.name!r} on {devices} takes {size:,} {things}"
            less = "--shrink or a smaller --batch"
            hint = f"try {less}, or --count to count alone" if what == "run" else f"try {less}"
            raise PlanError(str(self.asked.file), found, f"at most {most:,}", hint)

    def result(self) -> Verified:
        """Return what was found."""
        asked, plan = self.asked, self.asked.plan
        tell(f"comparing the counts of {self.graph.name}")
        amounts = planned(plan, self.graph, asked.planned_by, asked.machine)
        names = self._names()
        own = self._counted()
        sums = [np.sum([np.zeros(len(names)), *each.values()], axis=0) for each in (amounts, own)]
        moved = None if self.found is None else self._moved()
        levels = tuple(
            LevelBytes(
                level=name,
                planned=float(sums[0][level]),
                counted=int(sums[1][level]),
                moved=None if moved is None else int(moved[level]),
            )
            for level, name in enumerate(names)
        )
        return Verified(
            plan=plan,
            batch=self.graph.batch,
            devices=plan.num_devices,
            convention=asked.run_by,
            planned_by=asked.planned_by,
            levels=levels,
            differences=self._differences(amounts, own, names),
            mismatches=self._mismatches(names),
            numbers=None if self.found is None else _numbers(self.found),
            notes=self._notes(),
        )

    def _names(self) -> list[str]:
        """Return the names of the levels."""
        levels = len(self.counts[0][1]) if self.counts else len(self.asked.plan.array)
        staged = self.asked.plan.staged
        return [*["stages"] * staged, *(f"H{level + 1}" for level in range(levels - staged))]

    def _counted(self) -> Amounts:
        """Return the bytes of the program by what the plan's cost would name them."""
        found: Amounts = {}
        names = _PlannedNames(self.graph, {*self.asked.plan.layers})
        for item, own in self.counts:
            key = names.of(item)
            found[key] = found.get(key, np.zeros(len(own))) + own * float(self.graph.element_bytes)
        return {item: own for item, own in found.items() if own.any()}

    def _moved(self) -> Bytes:
        transfers = () if self.found is None else self.found.transfers
        nothing = np.zeros(len(self._names()), np.int64)
        return np.asarray(
            self.graph.element_bytes * np.sum([nothing, *(each.moved for each in transfers)], axis=0)
        )

    def _differences(self, amounts: Amounts, own: Amounts, names: list[str]) -> tuple[Difference, ...]:
        """Return the transfers and levels at which the plan's count and the program's differ, with their cases."""
        plan, asked = self.asked.plan, self.asked
        facts = Facts(
            graph=self.graph,
            nodes={node.name: node for node in self.graph.nodes(plan.graph).layers},
            cuts=cuts_of(plan)[1],
            planned=asked.planned_by,
            run=asked.run_by,
            seams=plan.staged,
        )
        products = None
        if not (plan.heterogeneous or plan.staged) and asked.run_by in {MOVED, FUSED}:
            products = by_products(plan, self.graph, asked.run_by)
        amounts, own = (self._without_seams(each) for each in (amounts, own))
        found = []
        for item in sorted({*amounts, *own}, key=self._order):
            before, after = (each.get(item, np.zeros(len(names))) for each in (amounts, own))
            for level, name in enumerate(names):
                if np.isclose(before[level], after[level], rtol=ROUNDING, atol=ROUNDING):
                    continue
                product = None
                if products is not None:
                    there = products.get(item, np.zeros(len(names)))[level]
                    product = bool(np.isclose(there, after[level], rtol=ROUNDING, atol=ROUNDING))
                place = Place(
                    item=item, level=level, more=bool(after[level] > before[level]), in_products=product
                )
                found.append(
                    Difference(
                        item=item,
                        level=name,
                        planned=float(before[level]),
                        counted=int(after[level]),
                        case=facts.case(place),
                    )
                )
        return tuple(found)

    def _without_seams(self, amounts: Amounts) -> Amounts:
        """Return amounts in which everything that a stage receives from others in a phase is one item."""
        plan = self.asked.plan
        if plan.stages is None or not plan.staged:
            return amounts
        stage_of = {name: number for number, stage in enumerate(plan.stages.stages) for name in stage.layers}
        found: Amounts = {}
        for item, own in amounts.items():
            end = item.maker if item.phase == "backward" and item.maker in stage_of else item.layer
            within = own.copy()
            if end in stage_of and within[0]:
                key = seam(stage_of[end], item.phase)
                found.setdefault(key, np.zeros(len(own)))[0] += within[0]
                within[0] = 0
            found[item] = found.get(item, np.zeros(len(own))) + within
        return found

    def _order(self, item: Item) -> tuple[int, int, str, str]:
        phases = ("forward", "backward", "gradient")
        names = [layer.name for layer in self.graph.layers]
        place = names.index(item.layer) if item.layer in names else len(names)
        return phases.index(item.phase), place, item.tensor, item.maker or ""

    def _mismatches(self, names: list[str]) -> tuple[Mismatch, ...]:
        size = self.graph.element_bytes
        wrong: list[Checked] = (
            [each for each in self.found.transfers if not each.agrees] if self.found else []
        )
        return tuple(
            Mismatch(item=each.item, level=name, counted=int(each.counted[level]) * size, moved=int(each.moved[level]) * size)
            for each in wrong
            for level, name in enumerate(names)
            if each.counted[level] != each.moved[level]
        )  # fmt: skip

    def _notes(self) -> tuple[str, ...]:
        """Return what differs between the plan and what was run."""
        plan, changes = self.asked.plan, changes_of(self.asked.graph, self.graph, self.asked.graph.batch)
        found = [f"smaller than planned: {', '.join(changes)}"] if changes else []
        if plan.heterogeneous and not plan.integral:
            found.append("shares that are not of whole elements are rounded by the largest remainder")
        if self.asked.microbatches > 1:
            found.append(
                f"{self.asked.microbatches} microbatches of {self.graph.batch // self.asked.microbatches:,} samples"
            )
        return tuple(found)


def _counts(program: Program, microbatches: int) -> list[tuple[Item, Bytes]]:
    """Return the elements of each transfer of a mini-batch."""
    return [
        (step.item, (1 if exchanges_gradients(step) else microbatches) * step.counted(program.places))
        for step in program.transfers.values()
    ]


class _PlannedNames:
    """The names that a plan's count has for the transfers of a program: those of the layers that are cut."""

    def __init__(self, graph: LayerGraph, planned_layers: set[str]) -> None:
        """Find the planned layer whose output each layer passes on, and the first one that reads each output."""
        self.sources: dict[str, str] = {}
        self.readers: dict[str, str] = {}
        self.sums: set[str] = set()
        for layer in graph.layers:
            passes = layer.name not in planned_layers and layer.inputs
            self.sources[layer.name] = self.sources[layer.inputs[0]] if passes else layer.name
            if passes and layer.op.contracts(layer.input_shapes):
                self.sums.add(layer.name)
        for layer in reversed(graph.layers):
            reader = layer.name if layer.name in planned_layers else self.readers.get(layer.name)
            if reader is not None:
                self.readers |= dict.fromkeys(layer.inputs, reader)

    def of(self, item: Item) -> Item:
        """Return the item as a plan counts it: sums of an op without choices belong to the tensor that it passes on."""
        if item.layer in self.sums and item.layer in self.readers and item[2:] == ("forward", "output"):
            return Item(self.readers[item.layer], self.sources[item.layer], "forward", "input")
        return item if item.maker is None else item._replace(maker=self.sources[item.maker])


def _numbers(found: Verification) -> Numbers:
    scale = abs(found.expected_loss) or 1.0
    error = abs(found.loss - found.expected_loss) / scale
    return Numbers(
        loss=found.loss,
        expected_loss=found.expected_loss,
        loss_error=error if np.isfinite(error) else float("inf"),
        errors=found.errors,
        zero=found.zero,
    )
