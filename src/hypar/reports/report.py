"""The report of a plan: parts of its document, of its step, of the strategies beside it, of its explanation and its machine."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from hypar.document import Document, Note, Section
from hypar.errors import InputError, TableLimitError
from hypar.machine.machine import Machine, machine_numbers
from hypar.plan.plan import Plan, read_plan
from hypar.plan.records import Origin, Score, of_score, origin_of, remember
from hypar.planning.planner import plan_command, uneven_array
from hypar.planning.replay import run_plan
from hypar.planning.sources import as_planned, network_of, times_of
from hypar.reports import steps, words
from hypar.reports.of.plan import FEW, plan_document
from hypar.reports.renderers import page
from hypar.sharding.placement import primes
from hypar.studies.grid import Comparison, Run, compare_strategies, costs_of
from hypar.studies.step import StepRows

OPEN, OPTIONS = ("open in ", "not given", "assumed"), ("hardware", "model", "profile", "convention")
OF_STEP = {"time", "critical", "bytes", "energy", "memory", "numbers"}
"""How a source begins that leaves a number open; the options of a report; and the labels of the notes on a step."""

NOT_RUN = Note("", "Time, energy and memory are not known: no machine is named; --hardware names one.")
AT_REST = Note("", "Power at rest, of all devices for the whole step, belongs to no layer.")
CLOSEST = Note("", "These are the closest; hypar plan --explain has all.")
BETWEEN = Note("", "Rows of layers are without transfers between stages, which the costs of a step have.")


class Reported(NamedTuple):
    """A plan with its score on the machine that it knows, if it has one, the score that it had, and commands that lead to both."""

    plan: Plan
    planned: Score | None
    step: StepRows | None
    convention: str | None
    commands: tuple[str, ...]


def read_reported(file: str | Path, *, changes: Mapping[str, Any] | None = None, **named: Any) -> Reported:
    """Read a stored plan, and run it on its machine.

    ``named`` are its ``hardware``, ``model``, ``profile`` and ``convention``, as of ``score_plan`` and ``check_plan``; raises ``InputError``.
    """
    path, changed, stored = Path(file), changes or {}, read_plan(file)
    hardware, model, profile, convention = map(named.get, OPTIONS)
    network = network_of(stored, model)
    sized, step = as_planned(stored, network), None
    if stored.score or hardware or changed:
        given: dict[str, Any] = {"hardware": hardware, "changes": changed, "convention": convention}
        step = StepRows(run_plan(stored, model=sized, **given))
    options = [(f"--{key}", str(named[key])) for key in OPTIONS if named.get(key) is not None]
    options += [("--set", f"{key}={own}") for key, own in changed.items()]
    again = ["hypar", "report", path.name, *chain(*options), "-o", "plan.html"], ["hypar", "check", path.name]
    machine, score = (step.ran.machine, step.ran.score) if step else (None, None)
    commands = (plan_command(stored, path.name, network, machine), *map(shlex.join, again))
    plan = stored.model_copy(update={"score": score})
    remember(plan, Origin(network=sized, machine=machine, profile=times_of(stored, profile), file=path))
    return Reported(plan, stored.score, step, convention, commands)


def report_page(found: Reported, version: str) -> str:
    """Return the page of a report, made by a version of hypar."""
    plan = found.plan
    score, times, named = plan.score, plan.profile, [f"model {plan.model.name} {plan.model.digest}"]
    named += [] if score is None else [f"machine {score.hardware} {score.hardware_digest}"]
    named += [] if times is None else [f"profile {times.name} {times.digest}"]
    return page(report_document(found), found.commands, ", ".join([*named, f"hypar {version}"]))


def report_document(found: Reported) -> Document:
    """Return the document of a report."""
    plan, machine = found.plan, origin_of(found.plan).machine
    whole = plan_document(plan, costs=True)
    spent = {own.label: own for own in whole.notes if own.label in {*OF_STEP, "choices"}}
    claimed = [own for own in whole.notes if own.label not in spent]
    choices = [spent["choices"]] if "choices" in spent else []
    strategies = _asked("Strategies side by side", lambda: compared(found).document())
    best = strategies.about.partition(": ")[2]
    answer = f"of the strategies compared, {best}" if best else "not compared with other strategies"
    about = "A row is a layer or several alike; levels go from the outermost to the innermost."
    return Document(
        title=whole.title,
        about=f"{whole.about}; {answer}",
        tone=whole.tone,
        parts=(
            Section(title="Plan", about=about, parts=(*whole.tables, *choices, *[BETWEEN] * plan.staged)),
            *(_step(found.step, spent) if found.step else ()),
            strategies,
            *([_asked("Why this cut", lambda: _why(plan))] if plan.splits else []),
            Section(title="Claim and assumptions", parts=(*claimed, _assumed(machine))),
            *([_machine(found, machine)] if machine else []),
        ),
    )


def _asked(title: str, make: Callable[[], Document]) -> Section:
    """Return what a question about the plan has for an answer, or why it has none."""
    try:
        document = make()
    except (InputError, TableLimitError) as error:
        return Section(title, (Note("", f"Not known: {error}."),))
    return Section(title, (*document.parts, *document.notes), document.title)


def _step(rows: StepRows, notes: Mapping[str, Note]) -> Iterator[Section]:
    score = rows.ran.score
    work = score.critical if score.overlapped_s or score.groups else score.time
    energy = steps.shares_table("Energy of a step by place", "energy", score.energy or {})
    yield Section(
        title="Costs of a step",
        parts=(
            steps.shares_table("Time of a step by kind of work", "time", work),
            *(notes[label] for label in ("time", "critical", "numbers") if label in notes),
            steps.levels_table(rows),
            energy if energy.rows else notes["energy"],
            *([AT_REST] if "static" in (score.energy or {}) else []),
        ),
    )
    about = "A row is a layer or several alike, or a stage; what runs beside the critical path is low."
    yield Section("Step over time", (steps.step_timeline(rows, "A step"),), about)
    about = "What each stage holds is in the plan's table of stages." * bool(rows.ran.stages)
    yield Section("Memory over the step", (notes["memory"], *steps.memory_tables(rows)), about)


def compared(found: Reported) -> Comparison:
    """Return the strategies that minimise dp's cost for the plan's devices, with the plan; raises as ``compare_strategies``."""
    plan, score, made = found.plan, found.plan.score, origin_of(found.plan)
    own = of_score(plan.convention) if score is None else score.convention
    convention = None if plan.heterogeneous else found.convention or own
    weight, optimizer = plan.cost.parameters.get("inter_weight"), "sgd" if score is None else score.optimizer
    asked: dict[str, Any] = {"batch": plan.model.batch, "inter_weight": weight, "optimizer": optimizer}
    asked |= {"hardware": made.machine, "array": _array(plan, made.machine)}
    asked |= plan.training.model_dump(exclude_defaults=True)
    rows = compare_strategies(made.network, convention=convention, **asked)
    planned = tuple(split.cost for split in plan.summed)
    costs = planned if plan.staged else costs_of(plan, made.network, rows.convention, made.machine)
    this = plan.strategy, plan.splits, plan.chunks
    same = [own and (own.strategy, own.splits, own.chunks) == this for own in (run.plan for run in rows)]
    at = [*same, True].index(True)
    others = [*rows[:at], *rows[at + 1 :]]
    name = plan.strategy + " as planned" * any(run.name == plan.strategy for run in others)
    row = Run.of({"strategy": name}, plan, plan=plan, costs=costs, own=True)
    return Comparison([*others[:at], row, *others[at:]], rows.convention)


def _array(plan: Plan, machine: Machine | None) -> tuple[int, ...] | None:
    """Return the levels for the other strategies: the plan's own, with a level for each prime factor of its stages."""
    if machine is not None and machine.groups:
        return uneven_array(plan, machine) if plan.uneven else None
    if plan.stages is None:
        return tuple(plan.array)
    outside = plan.stages.outside or 0
    return (*plan.array[:outside], *primes(len(plan.stages.stages)), *plan.array[outside:])


def _why(plan: Plan) -> Document:
    known = plan.explain()
    firsts = {part.layers[0] for part in words.parts_of(plan)}
    few = tuple(one for one in known.explained if one.layer in firsts)
    document: Document = replace(known, explained=few).document()
    if len(few) <= FEW:
        return document
    nearest = document.tables[1]._replace(rows=document.tables[1].rows[:FEW])
    return replace(document, parts=(nearest,), notes=(*document.notes, CLOSEST))


def _assumed(machine: Machine | None) -> Note:
    if machine is None:
        return NOT_RUN
    sources = [str(own["source"]) for own in machine_numbers(machine)]
    few = f"{sum(own.startswith(OPEN) for own in sources)} of the machine's {len(sources)} numbers are assumed or left open"
    return Note(
        "model", f"times, energies and bytes are those of a model of the machine, not measured; {few}"
    )


def _machine(found: Reported, machine: Machine) -> Section:
    """Return every number of the machine with its source, and whether the plan was made for another."""
    score, planned, changed = found.plan.score, found.planned, ""
    if score and planned and words.on_machine(planned) != words.on_machine(score):
        changed = f"The plan itself was scored {words.on_machine(planned)}."
    elif score and planned and planned.hardware_digest != score.hardware_digest:
        what = "The machine's file has changed since the plan was made"
        changed = f"{what}, or another version of hypar made it."
    document = machine.document()
    notes = (Note("", text) for text in (changed, document.title) if text)
    every = Section("Every number and its source", document.parts, document.about)
    return Section("Machine", (*notes, every))
