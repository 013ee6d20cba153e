"""Comparison of a stored plan with the result of planning again: for CI jobs that fail when a plan drifts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hypar.activity import tell
from hypar.errors import HyparError, InputError, OptionError, PlanError, ProblemError, TableLimitError, few
from hypar.files.text import read_json, read_text
from hypar.machine.machine import DIGEST
from hypar.network.graph import LayerGraph
from hypar.plan.diff import RESULTS, Change, changes_between
from hypar.plan.plan import SCHEMA, Plan, read_plan
from hypar.planning.fit import TRAINED_BY
from hypar.planning.planner import follow
from hypar.planning.replay import recosted, run_plan
from hypar.planning.resolved import Resolved
from hypar.planning.sources import machine_of, network_of, times_of
from hypar.planning.strategies.base import load_strategy
from hypar.solve.limits import Limits

FAMILY = SCHEMA.partition("/")[0]
CUT_SHORT = "its search was cut short: its choices are priced again, and its bound stands for the machine that found it"
TRAINED = "the search for how it trains is not repeated: its choices are priced again, and its claim stands as it was"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of planning a stored plan again.

    Attributes:
        model_changed: whether the network differs from the one that was planned.
        changes, tolerated: the differences of the two plans' files, and those of numbers within the tolerance.
        fresh: the new plan.
        notes: where the recorded strategy or solver is not what hypar takes for the rest of the request, and what is not
            planned again.
    """

    model_changed: bool
    changes: tuple[Change, ...]
    fresh: Plan
    notes: tuple[str, ...] = ()
    tolerated: tuple[Change, ...] = ()

    @property
    def ok(self) -> bool:
        """Return whether nothing drifted."""
        return not (self.model_changed or self.changes)


def check_plan(
    file: str | Path,
    *,
    model: str | Path | None = None,
    hardware: str | Path | None = None,
    profile: str | Path | None = None,
    tolerance: float = 0.0,
) -> Verdict:
    """Plan again from a stored plan's request, and compare the whole file with the one written today.

    A search that was cut short, or chose how a step trains, is not repeated: the stored choices are priced again. If the model
    has changed so that the recorded solver no longer suits it, the cheapest exact one is used instead.

    Args:
        file: the plan file.
        model: the model file, if it is not found by its name in the plan: beside it, in the current folder or among hypar's own.
        hardware: the hardware file of the plan's score, if it is not found likewise.
        profile: the measured times that the plan's cost counted, if they are not found beside it or here.
        tolerance: the relative difference up to which costs, bounds and numbers of the score are no drift, from 0 up to 1.

    Raises:
        InputError: the plan or its model cannot be read.
    """
    if not 0 <= tolerance < 1:
        raise OptionError("tolerance", f"found {tolerance}", "a share from 0 to below 1, as 1e-6")
    stored = read_plan(file)
    graph = network_of(stored, model)
    request = Resolved.of(stored, machine_of(stored, hardware, profile=profile), times_of(stored, profile))
    changed = graph.digest != stored.model.digest
    try:
        fresh, notes = _again(stored, request, graph.with_batch(stored.model.batch), changed=changed)
    except InputError as error:
        where = f"{file}: {error.where}" if error.where else str(file)
        raise PlanError(where, error.found, error.allowed, error.hint) from None
    fresh = fresh.model_copy(update={"files": stored.files})
    found = changes_between(stored, fresh)
    tolerated = tuple(change for change in found if near(change, tolerance))
    drifted = tuple(one for one in found if one not in tolerated)
    old = stored.score is not None and not stored.score.hardware_digest.endswith(DIGEST)
    older = ["score.hardware_digest: made with another version of hypar"] * old
    notes = (*older, *_not_its_own(request), *notes)
    return Verdict(model_changed=changed, changes=drifted, fresh=fresh, notes=notes, tolerated=tolerated)


def near(change: Change, tolerance: float) -> bool:
    """Return whether a difference is of a number that planning computes, and within the tolerance."""
    before, after = change.before, change.after
    if isinstance(before, str) or isinstance(after, str) or not RESULTS.fullmatch(change.what):
        return False
    return abs(after - before) <= tolerance * max(abs(before), abs(after))


def _not_its_own(request: Resolved) -> tuple[str, ...]:
    """Say where a request is not what its strategy stands for: an option was given, or the name is another."""
    try:
        own = load_strategy(request.strategy)
    except InputError as error:  # there is none of that name any more
        return (str(error),)
    place = f"strategy {request.strategy!r}: its"
    pairs = {name: (getattr(own, name), getattr(request, name)) for name in ("space", "search")}
    return tuple(f"{place} {name} is {a}; the plan has {b}" for name, (a, b) in pairs.items() if a != b)


def _again(
    stored: Plan, request: Resolved, graph: LayerGraph, *, changed: bool
) -> tuple[Plan, tuple[str, ...]]:
    """Plan the request today, and say if hypar would take another solver than the recorded one."""
    cut = stored.limits is not None and stored.limits.cut is not None
    trained = stored.strategy == "fit" and TRAINED_BY in stored.claim
    if (cut or trained) and not changed:
        return priced(stored, request, graph), (CUT_SHORT if cut else TRAINED,)
    free, own = replace(request, solver=None), None
    if request.solver is not None:
        with suppress(ProblemError, TableLimitError):
            limits = Limits() if stored.limits is None else request.limits
            own = follow(replace(free, limits=limits), graph)
    if own is not None and own.solver == request.solver and (own.limits is None) == (stored.limits is None):
        return own, ()
    notes = () if own is None else (f"solver {request.solver!r}: hypar would take {own.solver!r}",)
    try:
        return follow(request, graph), notes
    except (ProblemError, TableLimitError):
        if not changed:
            raise
        return follow(free, graph), ()


def priced(plan: Plan, request: Resolved, graph: LayerGraph) -> Plan:
    """Return a stored plan with the cost, the score and the stages that its choices have today."""
    fresh = recosted(plan, graph, request)
    if request.machine is None:
        return fresh
    ran = run_plan(plan, hardware=request.machine, model=graph)
    return fresh.model_copy(update={"score": ran.score, "stages": ran.stages or plan.stages})


def check_plans(
    places: Iterable[str], note: Callable[[str], object] = lambda _: None, **named: Any
) -> Iterator[tuple[str, Verdict | HyparError]]:
    """Yield the verdict on each plan, those below folders too, or the error instead; ``note`` is told of files that are no plans."""
    for place in places:
        try:
            folder = os.path.isdir(place)  # noqa: PTH112 (a name too long is no folder, and no error here)
            files = _plans_below(Path(place), note) if folder else [Path(place)]
        except PlanError as error:
            yield place, error
            continue
        for file in files:
            tell(f"checking {file}")
            try:
                yield str(file), check_plan(file, **named)
            except HyparError as error:
                yield str(file), error


def _plans_below(folder: Path, note: Callable[[str], object]) -> list[Path]:
    """Return the plan files below a folder, damaged ones too; hidden folders are left out."""
    files = [file.relative_to(folder) for file in sorted(folder.rglob("*.json")) if file.is_file()]
    seen = [file for file in files if not any(part.startswith(".") for part in file.parts)]
    found = [folder / file for file in seen if _is_plan(folder / file)]
    others = [str(file) for file in seen if folder / file not in found]
    if not found:
        more = f", and {len(others)} other .json files" if others else ""
        allowed = "files that hypar plan -o writes, named .json"
        raise PlanError(str(folder), f"no plans below it{more}", allowed)
    if others:
        note(f"skipped below {folder}, as no plans: {few(others)}")
    return found


def _is_plan(file: Path) -> bool:
    """Return whether a file is a plan, of any version, or cannot be read and may be one."""
    with suppress(InputError):
        data = read_json(file)
        return isinstance(data, dict) and str(data.get("schema")).startswith(f"{FAMILY}/")
    with suppress(InputError):
        return f'"{FAMILY}/' in read_text(file)
    return True
