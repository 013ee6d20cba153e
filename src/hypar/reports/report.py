"""The report of a plan: its document, with the step it makes, the strategies beside it and why it is as it is."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypar.document import Cell, Document, Note, Section, Table
from hypar.errors import InputError, OptionError, TableLimitError
from hypar.machine.heterogeneous import HeterogeneousMachine
from hypar.machine.load_heterogeneous import as_hardware
from hypar.machine.routing import primes
from hypar.plan.plan import read_plan
from hypar.plan.records import of_score
from hypar.planning.asked import plan_command, uneven_array
from hypar.planning.replay import run_plan
from hypar.planning.sources import as_planned, machine_of, model_of, profile_of
from hypar.reports.breakdown import (
    energy_figure,
    kinds_figure,
    layers_table,
    levels_table,
    longest_table,
    memory_parts,
    rows_of,
    step_timeline,
    table_of,
)
from hypar.reports.html import page
from hypar.reports.of.comparison import document_of as comparison_document
from hypar.reports.of.explanation import nearest, price
from hypar.reports.of.machines import machine_data, value_text
from hypar.reports.of.plan import plan_document, plan_grid
from hypar.reports.words import on_machine, words_of
from hypar.sharding.conventions import PAPER
from hypar.sharding.dims import choice_word
from hypar.sharding.space import parse_space
from hypar.studies.explain import explain_plan
from hypar.studies.grid import Comparison, Run, compare_strategies, costs_of
from hypar.studies.remarks import baseline_scores, remarks
from hypar.studies.step import StepRows
from hypar.units import format_bytes, format_gain, format_joules, format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hypar.machine.machine import Machine
    from hypar.machine.profiles import Profile
    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan
    from hypar.plan.score import Score
    from hypar.planning.replay import ScoredStep
    from hypar.studies.explain import Alternative, LayerExplanation

    Call = tuple[LayerExplanation, Alternative]

OPEN = ("open in ", "not given", "assumed")
"""How a source begins that leaves a number open."""

CLOSEST = 6
"""The number of closest calls."""

THIS = "(this plan)"
STEP = {"time", "critical"}
TOLD = {"bytes", "energy", "memory"}
"""The labels of notes that stand with the costs of a step, and of those whose numbers are in its tables."""

UNKNOWN = "Not known: the plan names no machine."
AT_REST = "Power at rest, of all devices for the whole step, belongs to no layer."


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """What a report is made of.

    Attributes:
        plan: the plan, with its score on the machine.
        stored: the plan as it is stored, with its own score.
        graph: the network.
        machine: the machine; None if none is named.
        profile: the measured times that the plan's cost counted.
        ran: the step on the machine.
        convention: the convention that was asked for.
        commands: the commands that lead to plan and report again.
    """

    plan: Plan
    stored: Plan
    graph: LayerGraph
    machine: Machine | HeterogeneousMachine | None
    profile: Profile | None
    ran: ScoredStep | None
    convention: str | None
    commands: tuple[str, ...]


def read_reported(
    file: str | Path,
    *,
    hardware: str | Path | None = None,
    model: str | Path | None = None,
    profile: str | Path | None = None,
    changes: Mapping[str, Any] | None = None,
    convention: str | None = None,
) -> Reported:
    """Read a stored plan, and run it on its machine.

    Args:
        file: the plan file.
        hardware: a machine, if not the one of the plan's score.
        model: the model file, if the plan's model name does not find it.
        profile: the measured times that the plan's cost counted, if they are not found beside it.
        changes: changes to the machine.
        convention: how bytes are counted: ``paper``, ``moved`` or ``fused``; if it is not given, as ``score_plan`` does.

    Raises:
        InputError: a file cannot be read, or the plan is for another network or does not fit the machine.
    """
    path, changed = Path(file), changes or {}
    stored = read_plan(path)
    network = model_of(stored, path, model)
    sized = as_planned(stored, network, path)
    machine = (
        machine_of(stored, path, changes=changes) if hardware is None else as_hardware(hardware, changed)
    )
    if machine is None and changes:
        raise OptionError("--set", "no machine is named", "one, as --hardware hmc")
    ran = None if machine is None else run_plan(stored, hardware=machine, model=sized, convention=convention)
    options = {"hardware": hardware, "model": model, "profile": profile, "convention": convention}
    words = [
        word for name, value in options.items() if value is not None for word in (f"--{name}", str(value))
    ]
    words += [word for name, value in changed.items() for word in ("--set", f"{name}={value}")]
    return Reported(
        plan=stored if ran is None else stored.model_copy(update={"score": ran.score}),
        stored=stored,
        graph=sized,
        machine=machine,
        profile=profile_of(stored, path, profile),
        ran=ran,
        convention=convention,
        commands=(
            plan_command(stored, path.name, network.batch, machine),
            shlex.join(["hypar", "report", path.name, *words, "-o", "plan.html"]),
            shlex.join(["hypar", "check", path.name]),
        ),
    )


def report_page(found: Reported, version: str) -> str:
    """Return the page of a report, made by a version of hypar."""
    return page(report_document(found), found.commands, _footer(found.plan, version))


def _footer(plan: Plan, version: str) -> str:
    """Name what the report starts from."""
    named = [f"model {plan.model.name} {plan.model.digest}"]
    if plan.score is not None:
        named.append(f"machine {plan.score.hardware} {plan.score.hardware_digest}")
    if plan.profile is not None:
        named.append(f"profile {plan.profile.name} {plan.profile.digest}")
    return ", ".join([*named, f"hypar {version}"])


def report_document(found: Reported) -> Document:
    """Return the document of a report."""
    plan = found.plan
    scores = baseline_scores(plan, found.graph, found.machine, found.profile)
    base = scores.get("dp")
    said = remarks(plan, found.graph, found.machine, found.profile, scores)
    whole = plan_document(plan, ran=found.ran, base=base, said=said)
    section, answer = _strategies(found)
    tables = (own for own in whole.parts if isinstance(own, Table) and own.shown)
    choices = (own for own in whole.notes if own.label == "choices")
    spent = [own for own in whole.notes if own.label in STEP]
    claimed = [own for own in whole.notes if own.label not in {"choices", *STEP, *TOLD}]
    several = " or several alike" * (len({*rows_of(plan).values()}) < len(plan.layers))
    about = f"A row is a layer{several}; levels go from the outermost to the innermost."
    return Document(
        title=whole.title,
        about=f"{whole.about}; {answer}",
        tone=whole.tone,
        parts=(
            *_against(plan.score, base),
            Section(title="Plan", about=about, parts=(*tables, *choices)),
            *_step_sections(found, spent, several),
            section,
            _why(found),
            _claim(found, claimed),
            _machine(found),
        ),
    )


def _against(score: Score | None, base: Score | None) -> Iterator[Table]:
    """Yield the totals of a step beside those of dp."""
    if score is None or base is None:
        return
    pairs = (
        ("a step takes", score.time_s, base.time_s, format_seconds),
        ("energy", score.energy_j, base.energy_j, format_joules),
        ("devices receive", score.communication_bytes, base.communication_bytes, format_bytes),
        ("memory of a device", score.memory_bytes, base.memory_bytes, format_bytes),
    )
    head = "dp" if base.fits else "dp (does not fit)"
    yield table_of(
        {"": "text", "this plan": "ratio", head: "ratio", "gain": "ratio"},
        (
            (name, text(own), text(dp), format_gain(dp, own))
            for name, own, dp, text in pairs
            if own is not None and dp is not None
        ),
    )


def _step_sections(found: Reported, notes: Sequence[Note], several: str) -> Iterator[Section]:
    """Yield what the step spends, when it does what, and what it holds."""
    titles = ("Costs of a step", "Step over time", "Memory over the step")
    if found.ran is None:
        yield from (Section(title=title, parts=(Note("", UNKNOWN),)) for title in titles)
        return
    rows, score, row_of = StepRows(ran=found.ran), found.ran.score, rows_of(found.plan)
    at_rest = (Note("", AT_REST),) if "static" in (score.energy or {}) else ()
    about = f"Seconds on the critical path; memory of a device{' of the stage' * bool(found.ran.stages)}."
    layers = Section(title="Layer by layer", about=about, parts=(layers_table(rows, row_of), *at_rest))
    yield Section(
        title=titles[0],
        parts=(kinds_figure(score), *notes, levels_table(rows), energy_figure(score), layers),
    )
    tasks = Section(title=f"The longest of {len(rows.tasks)} tasks", parts=(longest_table(rows),))
    timeline = step_timeline(rows, row_of, f"A step of {format_seconds(score.time_s)}")
    yield Section(title=titles[1], about=_about_timeline(rows, several), parts=(timeline, tasks))
    yield Section(title=titles[2], parts=tuple(memory_parts(rows)))


def _about_timeline(rows: StepRows, several: str) -> str:
    if rows.ran.stages is not None:
        return "A row is a stage. A box has the number of its microbatch; the low boxes are what the stage receives."
    critical, number = sum(task.critical for task in rows.tasks), len(rows.tasks)
    path = f"{critical} of {number} tasks lie on the critical path; the low boxes run beside it"
    if critical == number:
        path = f"All {number} tasks lie on the critical path: nothing runs beside anything else"
    return f"A row is a layer{several}. {path}."


def compared(found: Reported) -> Comparison:
    """Return the strategies that minimise dp's cost for the plan's devices, the plan among them.

    Raises:
        InputError: they cannot be compared on these devices.
        TableLimitError: no search fits.
    """
    plan, score, convention = found.plan, found.plan.score, None
    if not plan.heterogeneous:
        own = of_score(plan.convention or PAPER) if score is None else score.convention or PAPER
        convention = own if found.convention is None else found.convention
    weight = plan.cost.parameters.get("inter_weight")
    rows = compare_strategies(
        found.graph,
        array=_array(plan, found.machine),
        batch=plan.model.batch,
        inter_weight=None if weight is None else float(weight),
        hardware=found.machine,
        optimizer="sgd" if score is None else score.optimizer,
        convention=convention,
    )
    costs = tuple(split.cost for split in plan.summed)
    if convention is not None and not plan.staged:
        costs = costs_of(plan, found.graph, convention, found.machine)
    row = replace(Run.of({"strategy": f"{own_name(plan)} {THIS}"}, plan), plan=plan, costs=costs)
    alike = [
        each.plan is not None and _same(each.plan, plan) and each.name == own_name(plan) for each in rows
    ]
    kept = [row if same else other for other, same in zip(rows, alike, strict=True)]
    return Comparison(kept if any(alike) else [*kept, row], rows.convention)


def own_name(plan: Plan) -> str:
    """Return the strategy of a plan, with what sets it apart from the strategy alone."""
    stages = f"{len(plan.stages.stages)} stages" if plan.stages is not None and plan.staged else ""
    pins = f"{len(plan.pins)} pin{'s' * (len(plan.pins) > 1)}" if plan.pins else ""
    more = ("refined" if plan.refined else "", "chunks" if plan.chunks else "")
    return ", ".join(filter(None, (plan.strategy, stages, pins, *more)))


def _same(one: Plan, own: Plan) -> bool:
    times = [None if each.score is None else each.score.time_s for each in (one, own)]
    return one.splits == own.splits and times[0] == times[1]


def _array(plan: Plan, machine: Machine | HeterogeneousMachine | None) -> tuple[int, ...] | None:
    """Return the levels for the other strategies: the plan's own, with a level for each prime factor of its stages."""
    if isinstance(machine, HeterogeneousMachine):
        return uneven_array(plan, machine) if plan.uneven else None
    if plan.stages is None:
        return tuple(plan.array)
    outside = plan.stages.outside or 0
    return (*plan.array[:outside], *primes(len(plan.stages.stages)), *plan.array[outside:])


def _strategies(found: Reported) -> tuple[Section, str]:
    """Return the strategies with their totals, and which of them is best."""
    title = "Strategies side by side"
    try:
        document = comparison_document(compared(found))
    except (InputError, TableLimitError) as error:
        return Section(
            title=title, parts=(Note("", f"None is compared: {error}."),)
        ), "not compared with other strategies"
    answer = f"of the strategies compared, {document.title.partition(': ')[2]}"
    tables = [own._replace(rows=[*map(_marked, own.rows)]) for own in document.tables if own.shown]
    notes = Section(title="What each is optimal over", parts=document.notes)
    return Section(title=title, about=f"{answer[:1].upper()}{answer[1:]}.", parts=(*tables, notes)), answer


def _marked(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"tone": "this"} if row["strategy"].endswith(THIS) and not row.get("tone") else row


def _why(found: Reported) -> Section:
    """Return the choices that would change first, and the next choice of every layer at every level."""
    title = "Why this cut"
    try:
        known = explain_plan(found.plan, found.graph, layer="*", machine=found.machine, profile=found.profile)
    except OptionError as error:
        text = f"Not covered: {error.found}; the strategies above show what other choices reach."
        return Section(title=title, parts=(Note("", text),))
    except (InputError, TableLimitError) as error:
        return Section(title=title, parts=(Note("", f"Not covered: {error}."),))
    row_of = rows_of(found.plan)
    found_calls: dict[tuple[str, str], Call] = {}
    calls = [(one, other) for one in known.explained for other in [nearest(one)] if other is not None]
    for call in sorted(calls, key=lambda call: (call[1].replanned is None, price(*call))):
        found_calls.setdefault((row_of[call[0].layer], call[0].place), call)
    if not calls:
        return Section(title=title, parts=(Note("", "No layer has another choice in this space."),))
    anew = all(other.replanned is not None for _, other in [*found_calls.values()][:CLOSEST])
    what = (
        "the level would cost more, the others planned anew"
        if anew
        else "it would cost more, the others as planned"
    )
    table = _calls(found.plan, found_calls)
    every = Section(title=f"All rows at all levels, {len(table.rows)} choices", parts=(table,))
    about = f"Where the plan would change first: the next choice of a row, and what {what}."
    return Section(title=title, about=about, parts=(table._replace(rows=table.rows[:CLOSEST]), every))


def _calls(plan: Plan, calls: Mapping[tuple[str, str], Call]) -> Table:
    """Return a row for each choice beside the next, by the names of the row and of the level."""
    grids, words = parse_space(plan.space, None).grids, words_of(plan)

    def cell(one: LayerExplanation, each: Alternative) -> Cell:
        cut = tuple((dim, degree) for dim, degree in each.choice.degrees if degree > 1)
        return Cell(choice_word(each.choice.degrees, one.ways, words, grids=grids), cut)

    units = {"layer": "text", "level": "text", "the plan": "text", "next": "text", "costs more": plan.cost.unit,
             "of the plan": "percent"}  # fmt: skip
    rows = []
    for named, (one, other) in calls.items():
        more = price(one, other)
        rows.append((*named, cell(one, one.chosen), cell(one, other), more, more / (plan.cost.value or 1.0)))
    return table_of(units, rows)


def _claim(found: Reported, notes: Sequence[Note]) -> Section:
    """Return how the plan was found, and how many of its numbers are assumed."""
    last = Note("", "Nothing is said about time, energy and memory: the plan names no machine.")
    if found.machine is not None:
        sources = [str(own["source"]) for own in machine_data(found.machine)]
        few = f"{sum(own.startswith(OPEN) for own in sources)} of the machine's {len(sources)} numbers are assumed or left open"
        last = Note(
            "model", f"times, energies and bytes are those of a model of the machine, not measured; {few}"
        )
    return Section(title="Claim and assumptions", parts=(*notes, last))


def _machine(found: Reported) -> Section:
    """Return every number of the machine with its source, those that are assumed first."""
    if found.machine is None:
        return Section(title="Machine", parts=(Note("", "None is named; hypar plan --hardware names one."),))
    values = sorted(machine_data(found.machine), key=lambda own: not str(own["source"]).startswith(OPEN))
    rows = ((own["what"], value_text(own["value"], own["unit"]), own["source"]) for own in values)
    table = table_of({"what": "text", "value": "ratio", "source": "text"}, rows)
    return Section(
        title="Machine",
        about=f"{found.machine.name}: every number with its source, those that are assumed first.",
        parts=(
            *(Note("", line) for line in _other_machine(found.plan.score, found.stored.score)),
            Section(title=f"{len(values)} numbers and their sources", parts=(table,)),
        ),
    )


def _other_machine(score: Score | None, planned: Score | None) -> Iterator[str]:
    """Yield how the machine differs from its file, and from the one that the plan was made for."""
    if score is None:
        return
    if score.hardware_changes:
        yield f"With changes: {on_machine(score)}."
    if planned is None:
        yield "The plan itself names no machine."
    elif on_machine(planned) != on_machine(score):
        yield f"The plan itself was scored {on_machine(planned)}."
    elif planned.hardware_digest != score.hardware_digest:
        yield "The machine's file has changed since the plan was made."


def picture_document(ran: ScoredStep) -> Document:
    """Return the plan beside its step, row by row, for ``score --picture``."""
    plan = ran.plan.model_copy(update={"score": ran.score})
    base = baseline_scores(plan, ran.graph, ran.machine).get("dp")
    title = plan_document(plan, ran=ran, base=base).title
    return Document(
        title=title, parts=(plan_grid(plan, ran), step_timeline(StepRows(ran=ran), rows_of(plan)))
    )
