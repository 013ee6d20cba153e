"""Run one training step of a stored plan on simulated devices, and hold it against one device and against its counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hypar.activity import tell
from hypar.errors import PlanError
from hypar.execution.lifetimes import MOST_ENTRIES, entries_of, exchanges_gradients, most_elements
from hypar.execution.verify import verify_program
from hypar.plan.diff import changes_between
from hypar.planning.replay import recosted, run_plan
from hypar.planning.resolved import Resolved
from hypar.program.of_plan import program_of
from hypar.studies.verification.asked import ask
from hypar.studies.verification.comparing import Comparison
from hypar.studies.verification.planned import planned
from hypar.studies.verification.result import LevelBytes, Mismatch, Numbers, Verified
from hypar.studies.verification.shrink import changes_of

if TYPE_CHECKING:
    from pathlib import Path

    from hypar.execution.verify import Checked, Verification
    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan
    from hypar.program.steps import Item, Program
    from hypar.studies.verification.asked import Asked

Bytes = NDArray[np.int64]
"""Bytes, or elements, of each level."""

MOST_ELEMENTS = 2**28
"""Elements that all simulated devices hold at once, at most: 2 GiB."""


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
    asked = ask(plan, model, hardware, convention)
    return _Verification(asked, asked.sized(batch, shrink=shrink), count=count).result()


class _Verification:
    """A verification under way: the program of a plan, its counts, and its run."""

    def __init__(self, asked: Asked, graph: LayerGraph, *, count: bool) -> None:
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
        comparison = Comparison(asked, self.graph, names)
        own = comparison.counted(self.counts)
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
            differences=comparison.differences(amounts, own),
            mismatches=self._mismatches(names),
            changes=changes_between(plan, self._again()),
            numbers=None if self.found is None else _numbers(self.found),
            notes=self._notes(),
        )

    def _again(self) -> Plan:
        """Return the plan with its results counted again: its cost, and on the machine of its score stages and score."""
        plan, graph, machine = self.asked.plan, self.asked.graph, self.asked.machine
        again = recosted(plan, graph, Resolved.of(plan, machine, self.asked.profile))
        if machine is None:
            return again
        ran = run_plan(plan, hardware=machine, model=graph)
        return again.model_copy(update={"score": ran.score, "stages": ran.stages or plan.stages})

    def _names(self) -> list[str]:
        """Return the names of the levels."""
        plan = self.asked.plan
        levels = len(self.counts[0][1]) if self.counts else len(plan.array)
        names = [f"H{level + 1}" for level in range(levels - plan.staged)]
        if plan.stages is not None and plan.staged:
            names.insert(plan.stages.outside or 0, "stages")
        return names

    def _moved(self) -> Bytes:
        transfers = () if self.found is None else self.found.transfers
        nothing = np.zeros(len(self._names()), np.int64)
        return np.asarray(
            self.graph.element_bytes * np.sum([nothing, *(each.moved for each in transfers)], axis=0)
        )

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
        if plan.uneven:
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


def _numbers(found: Verification) -> Numbers:
    return Numbers(loss=found.loss, expected_loss=found.expected_loss, errors=found.errors, zero=found.zero)
