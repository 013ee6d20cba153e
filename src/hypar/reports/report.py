"""The report of a plan: its document, with the step it makes, the strategies beside it and why it is as it is."""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypar.document import Cell, Column, Document, Note, Section, Table
from hypar.errors import InputError, OptionError, TableLimitError
from hypar.machine.heterogeneous import HeterogeneousMachine
from hypar.machine.load_heterogeneous import as_hardware
from hypar.machine.routing import primes
from hypar.plan.plan import read_plan
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
)
from hypar.reports.html import page
from hypar.reports.of.machines import machine_data, value_text
from hypar.reports.of.plan import plan_document, plan_grid
from hypar.reports.words import on_machine, tone_of
from hypar.sharding.conventions import PAPER
from hypar.studies.again import plan_command, uneven_array
from hypar.studies.comparison import compare_strategies
from hypar.studies.counted import costs_of
from hypar.studies.explanation import explain_plan
from hypar.studies.remarks import baseline_scores, remarks
from hypar.studies.step import StepRows
from hypar.units import amount, format_bytes, format_gain, format_joules, format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hypar.document import Part
    from hypar.machine.machine import Machine
    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan
    from hypar.plan.score import Score
    from hypar.planning.replay import ScoredStep
    from hypar.studies.explanation import Alternative, LayerExplanation

OPEN = ("open in ", "not given", "assumed")
"""How a source begins that leaves a number open."""

CLOSEST = 6
"""The number of closest calls."""

FASTER = 1.001
"""The gain from which another strategy is said to be better."""

UNKNOWN = "Not known: the plan names no machine."
AT_REST = "Power at rest, of all devices for the whole step, belongs to no layer."


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """A strategy beside a plan, or the plan itself.

    Attributes:
        name: the strategy.
        plan: its plan; None if its search would not fit.
        cost: its cost, counted by the convention of all; 0 without a plan.
        this: whether it is the plan itself.
        note: what the plan is optimal over, or why there is none.
    """

    name: str
    plan: Plan | None
    cost: float
    this: bool
    note: str

    @property
    def score(self) -> Score | None:
        """Its score; None without a machine."""
        return self.plan.score if self.plan else None

    @property
    def worth(self) -> float:
        """The time of a step, or without a machine the cost."""
        return self.cost if self.score is None else self.score.time_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """What a report is made of: the plan with its score on the machine, the network, the machine and the step on it."""

    plan: Plan
    graph: LayerGraph
    machine: Machine | HeterogeneousMachine | None
    profile: Any
    ran: ScoredStep | None
    convention: str | None


def report_page(
    file: str | Path,
    version: str,
    *,
    hardware: str | Path | None = None,
    model: str | Path | None = None,
    profile: str | Path | None = None,
    changes: Mapping[str, Any] | None = None,
    convention: str | None = None,
) -> str:
    """Run a stored plan, compare it with other strategies, explain it, and return the page.

    Args:
        file: the plan file.
        version: hypar's version.
        hardware: a machine, if not the one of the plan's score.
        model: the model file, if the plan's model name does not find it.
        profile: the measured times that the plan's cost counted, if they are not found beside it.
        changes: changes to the machine.
        convention: how bytes are counted: ``paper``, ``moved`` or ``fused``; if it is not given, as ``score_plan`` does.

    Raises:
        InputError: a file cannot be read, or the plan is for another network or does not fit the machine.
    """
    path = Path(file)
    stored = read_plan(path)
    network = model_of(stored, path, model)
    sized = as_planned(stored, network, path)
    machine = (
        machine_of(stored, path, changes=changes)
        if hardware is None
        else as_hardware(hardware, changes or {})
    )
    if machine is None and changes:
        raise OptionError("--set", "no machine is named", "one, as --hardware hmc")
    ran = None
    if machine is not None:
        ran = run_plan(stored, hardware=machine, model=sized, convention=convention)
    found = Reported(
        plan=stored if ran is None else stored.model_copy(update={"score": ran.score}),
        graph=sized,
        machine=machine,
        profile=profile_of(stored, path, profile),
        ran=ran,
        convention=convention,
    )
    options = {"hardware": hardware, "model": model, "profile": profile, "convention": convention}
    given = [
        word for name, value in options.items() if value is not None for word in (f"--{name}", str(value))
    ]
    given += [word for name, value in (changes or {}).items() for word in ("--set", f"{name}={value}")]
    commands = (
        plan_command(stored, path.name, network, machine),
        shlex.join(["hypar", "report", path.name, *given, "-o", "plan.html"]),
        shlex.join(["hypar", "check", path.name]),
    )
    return page(report_document(found, stored), commands, _footer(found.plan, version))


def _footer(plan: Plan, version: str) -> str:
    """Name what the report starts from."""
    named = [f"model {plan.model.name} {plan.model.digest}"]
    if plan.score is not None:
        named.append(f"machine {plan.score.hardware} {plan.score.hardware_digest}")
    if plan.profile is not None:
        named.append(f"profile {plan.profile.name} {plan.profile.digest}")
    return ", ".join([*named, f"hypar {version}"])


def report_document(found: Reported, stored: Plan) -> Document:
    """Return the document of a report.

    Args:
        found: what it is made of.
        stored: the plan as it is stored, with its own score.
    """
    plan = found.plan
    scores = baseline_scores(plan, found.graph, found.machine, found.profile)
    base = scores.get("dp")
    said = remarks(plan, found.graph, found.machine, found.profile, scores)
    whole = plan_document(plan, ran=found.ran, base=base, said=said)
    notes = {
        label: [own for own in whole.notes if (own.label == "choices") == label] for label in (True, False)
    }
    rivals, refused = strategies(found)
    return Document(
        title=whole.title,
        about=f"{whole.about}. {_lead(rivals, refused)}",
        tone=whole.tone,
        parts=(
            *_against(plan.score, base),
            Section(title="Plan", about="A row is a layer, or several alike; levels go from the outermost to the innermost.",
                    parts=(*(own for own in whole.parts if isinstance(own, Table) and own.shown), *notes[True])),
            *_step_sections(found),
            _strategies(rivals, refused, plan.cost.unit),
            _why(found),
            _claim(found, notes[False]),
            _machine(found, stored),
        ),
    )  # fmt: skip


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
    yield Table(
        columns=(
            Column(key="what", head=""),
            Column(key="own", head="this plan", unit="ratio"),
            Column(key="dp", head="dp" if base.fits else "dp (does not fit)", unit="ratio"),
            Column(key="gain", unit="ratio"),
            Column(key="bar", head="against dp", unit="bar"),
        ),
        rows=[
            {
                "what": what,
                "own": text(own),
                "dp": text(dp),
                "gain": format_gain(dp, own),
                "bar": own / (dp or 1.0),
            }
            for what, own, dp, text in pairs
            if own is not None and dp is not None
        ],
    )


def _step_sections(found: Reported) -> Iterator[Section]:
    """Yield what the step spends, when it does what, and what it holds."""
    if found.ran is None:
        for title in ("Costs of a step", "Step over time", "Memory over the step"):
            yield Section(title=title, parts=(Note("", UNKNOWN),))
        return
    rows, score, row_of = StepRows(ran=found.ran), found.ran.score, rows_of(found.plan)
    each = "a stage" if found.ran.stages else "a layer, or several alike"
    critical = sum(task.critical for task in rows.tasks)
    path = f"{critical} of {len(rows.tasks)} tasks lie on the critical path; the low boxes run beside it."
    if found.ran.stages:
        path = "A box has the number of its microbatch; below it is what the stage receives."
    at_rest = (Note("", AT_REST),) if "static" in (score.energy or {}) else ()
    layers = Section(title="Layer by layer", about="Seconds on the critical path.",
                     parts=(layers_table(rows, row_of), *at_rest))  # fmt: skip
    yield Section(
        title="Costs of a step", parts=(kinds_figure(score), levels_table(rows), energy_figure(score), layers)
    )
    tasks = Section(title=f"The longest of {len(rows.tasks)} tasks", parts=(longest_table(rows),))
    timeline = step_timeline(rows, row_of, f"A step of {format_seconds(score.time_s)}")
    yield Section(title="Step over time", about=f"A row is {each}. {path}", parts=(timeline, tasks))
    yield Section(title="Memory over the step", parts=tuple(memory_parts(rows)))


def strategies(found: Reported) -> tuple[list[Strategy], str]:
    """Return the strategies that minimise dp's cost for the plan's devices, the plan among them; or why there are no others.

    The fastest comes first, without a machine that of the least cost; strategies without a plan last.
    """
    plan, score, convention = found.plan, found.plan.score, None
    if not plan.heterogeneous:
        convention = (score.convention or PAPER) if score else found.convention or plan.convention or PAPER
    cost = plan.cost.value
    if score is None and convention is not None:
        cost = math.fsum(costs_of(plan, found.graph, convention, found.machine))
    own = Strategy(name=own_name(plan), plan=plan, cost=cost, this=True, note=plan.claim)
    weight = plan.cost.parameters.get("inter_weight")
    try:
        rows = compare_strategies(
            found.graph,
            array=_array(plan, found.machine),
            batch=plan.model.batch,
            inter_weight=None if weight is None else float(weight),
            hardware=found.machine,
            optimizer="sgd" if score is None else score.optimizer,
            convention=convention,
        )
    except (InputError, TableLimitError) as error:
        return [own], str(error)
    others = [
        Strategy(name=row.name, plan=row.plan, cost=row.cost, this=False, note=row.note) for row in rows
    ]
    kept = [each for each in others if not _same(each, own)]
    return sorted((own, *kept), key=lambda each: (each.plan is None, each.worth, not each.this)), ""


def own_name(plan: Plan) -> str:
    """Return the strategy of a plan, with what sets it apart from the strategy alone."""
    stages = f"{len(plan.stages.stages)} stages" if plan.stages is not None and plan.staged else ""
    pins = f"{len(plan.pins)} pin{'s' * (len(plan.pins) > 1)}" if plan.pins else ""
    more = ("refined" if plan.refined else "", "chunks" if plan.chunks else "")
    return ", ".join(filter(None, (plan.strategy, stages, pins, *more)))


def _same(one: Strategy, own: Strategy) -> bool:
    """Return whether a strategy's plan is the plan itself."""
    if one.plan is None or own.plan is None or one.name != own.name:
        return False
    return one.plan.splits == own.plan.splits and one.worth == own.worth


def _array(plan: Plan, machine: Machine | HeterogeneousMachine | None) -> tuple[int, ...] | None:
    """Return the levels for the other strategies: the plan's own, with a level for each prime factor of its stages."""
    if isinstance(machine, HeterogeneousMachine):
        return uneven_array(plan, machine) if plan.uneven else None
    if plan.stages is None:
        return tuple(plan.array)
    outside = plan.stages.outside or 0
    return (*plan.array[:outside], *primes(len(plan.stages.stages)), *plan.array[outside:])


def _lead(rivals: Sequence[Strategy], refused: str) -> str:
    """Say which strategy is better still."""
    if refused:
        return f"Not compared with other strategies: {refused}."
    own = next(each for each in rivals if each.this)
    fitting = [each for each in rivals if each.plan and (each.score is None or each.score.fits)]
    best = fitting[0] if fitting else own
    adjective = "cheaper" if own.score is None else "faster"
    if best.this or own.worth <= FASTER * best.worth:
        return f"No strategy compared{' that fits' * (own.score is not None)} is noticeably {adjective}."
    shown = best.plan.cost.unit if best.plan and best.score is None else "seconds"
    return f"Of the strategies compared, {best.name} is {adjective}: {amount(best.worth, shown)}."


def _strategies(rivals: Sequence[Strategy], refused: str, unit: str) -> Section:
    """Return the strategies with their totals."""
    if refused:
        return Section(title="Strategies side by side", parts=(Note("", f"None is compared: {refused}."),))
    base = next((each for each in rivals if each.name == "dp" and each.plan), None)
    return Section(
        title="Strategies side by side",
        about="The best first; gain is dp's over its own.",
        parts=(
            Table(
                columns=(
                    Column(key="strategy"),
                    Column(key="bar", head="", unit="bar"),
                    Column(key="time", unit="seconds"),
                    Column(key="cost", unit=unit),
                    Column(key="gain", unit="ratio"),
                    Column(key="energy", unit="joules"),
                    Column(key="received", unit="bytes"),
                    Column(key="memory", unit="bytes"),
                    Column(key="fits", head=""),
                ),
                rows=[_strategy(each, base) for each in rivals],
            ),
            Section(
                title="What each is optimal over",
                parts=tuple(Note(each.name, each.note) for each in rivals),
            ),
        ),
    )


def _strategy(each: Strategy, base: Strategy | None) -> dict[str, Any]:
    score = each.score
    row: dict[str, Any] = {"strategy": f"{each.name} (this plan)" if each.this else each.name}
    if each.plan is None:
        return row | {"fits": "the search does not fit"}
    row |= {"bar": each.worth, "gain": None if base is None or not each.worth else base.worth / each.worth}
    if score is None:
        return row | {"cost": each.cost, "tone": "this" if each.this else ""}
    totals = {"time": score.time_s, "energy": score.energy_j, "received": score.communication_bytes}
    tone = tone_of(score) if not score.fits else "this" if each.this else ""
    return (
        row
        | totals
        | {"memory": score.memory_bytes, "fits": "" if score.fits else "does not fit", "tone": tone}
    )


def _why(found: Reported) -> Section:
    """Return the choices that would change first, and the next choice of every layer at every level."""
    title, plan = "Why this cut", found.plan
    try:
        explained = explain_plan(
            plan, found.graph, layer="*", machine=found.machine, profile=found.profile
        ).explained
    except OptionError as error:
        return Section(
            title=title,
            parts=(Note("", f"Not covered: {error.found}; the strategies show what other choices reach."),),
        )
    except (InputError, TableLimitError) as error:
        return Section(title=title, parts=(Note("", f"Not covered: {error}."),))
    calls = [(one, *call) for one in explained for call in [_next(one)] if call is not None]
    closest = sorted(calls, key=lambda call: (not call[3], call[2]))[:CLOSEST]
    rest = all(call[3] for call in closest)
    what = (
        "the level would cost more, the other layers planned anew"
        if rest
        else "the layer would cost more, its neighbours as planned"
    )
    cells = _choices(plan)

    def row(one: LayerExplanation, other: Alternative, more: float) -> dict[str, Any]:
        share = more / (plan.cost.value or 1.0)
        own = {
            "layer": one.layer,
            "level": one.place,
            "plan": cells(one, one.chosen),
            "next": cells(one, other),
        }
        return own | {"more": more, "share": share}

    columns = (
        Column(key="layer"),
        Column(key="level"),
        Column(key="plan", head="the plan"),
        Column(key="next"),
        Column(key="more", head="costs more", unit=plan.cost.unit),
        Column(key="share", head="of the plan", unit="percent"),
    )
    every = Table(columns=columns, rows=[row(*call[:3]) for call in calls])
    return Section(
        title=title,
        about=f"Where the plan would change first: the next choice of a layer, and what {what}.",
        parts=(
            Table(columns=columns, rows=[row(*call[:3]) for call in closest]),
            Section(title=f"All {len(calls)} choices, each with the next", parts=(every,)),
        )
        if calls
        else (Note("", "No layer has another choice in this space."),),
    )


def _choices(plan: Plan) -> Any:
    """Return the function that gives the cell of an alternative."""
    from hypar.reports.words import words_of  # noqa: PLC0415
    from hypar.sharding.dims import choice_word  # noqa: PLC0415
    from hypar.sharding.space import parse_space  # noqa: PLC0415

    grids, words = parse_space(plan.space, None).grids, words_of(plan)

    def cell(one: LayerExplanation, each: Alternative) -> Cell:
        degrees = each.choice.degrees
        text = choice_word(degrees, one.ways, words, grids=grids)
        return Cell(text, tuple((dim, degree) for dim, degree in degrees if degree > 1))

    return cell


def _next(one: LayerExplanation) -> tuple[Alternative, float, bool] | None:
    """Return the cheapest other choice, what it costs more, and whether the rest is planned anew with it."""
    others = [each for each in one.alternatives if not each.chosen]
    known = [(each.replanned, at) for at, each in enumerate(others) if each.replanned is not None]
    if known:
        more, at = min(known)
        return others[at], more, True
    return (others[0], others[0].total - one.chosen.total, False) if others else None


def _claim(found: Reported, notes: Sequence[Note]) -> Section:
    """Return how the plan was found, and what its numbers assume."""
    parts: list[Part] = [*notes]
    if found.machine is None:
        parts.append(Note("", "Nothing is said about time, energy and memory: the plan names no machine."))
    else:
        values = machine_data(found.machine)
        assumed = [own for own in values if str(own["source"]).startswith(OPEN)]
        parts.append(
            Note("model", "times, energies and bytes are those of a model of the machine, not measured")
        )
        if assumed:
            title = f"{len(assumed)} of the machine's {len(values)} numbers are assumed or left open by their source"
            parts.append(Section(title=title, parts=(_values(assumed),)))
    return Section(title="Claim and assumptions", parts=tuple(parts))


def _machine(found: Reported, stored: Plan) -> Section:
    """Return every number of the machine with its source."""
    if found.machine is None:
        return Section(title="Machine", parts=(Note("", "None is named; hypar plan --hardware names one."),))
    values = machine_data(found.machine)
    return Section(
        title="Machine",
        about=f"{found.machine.name}: every number with its source.",
        parts=(
            *(Note("", line) for line in _other_machine(found.plan.score, stored.score)),
            Section(title=f"{len(values)} numbers and their sources", parts=(_values(values),)),
        ),
    )


def _values(values: Sequence[Mapping[str, Any]]) -> Table:
    return Table(
        columns=(Column(key="what"), Column(key="value", unit="ratio"), Column(key="source", prose=True)),
        rows=[
            {"what": own["what"], "value": value_text(own["value"], own["unit"]), "source": own["source"]}
            for own in values
        ],
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
