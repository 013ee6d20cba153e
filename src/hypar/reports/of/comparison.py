"""The document of a comparison: the best strategy, and a row for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypar.document import Column, Document, Note, Table
from hypar.planning.counting import score_convention
from hypar.planning.resolved import BASELINE
from hypar.planning.strategies.base import load_strategy
from hypar.reports.of.base import FITS_NOT, Step, data, picture, steps_table, totals_data
from hypar.reports.words import against, asked, fit, on_machine, tone_of
from hypar.schedule.scoring import Totals
from hypar.sharding.conventions import DIRECT
from hypar.units import exact_number, format_bytes, format_gain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypar.document import Figure, Tone
    from hypar.plan.plan import Plan
    from hypar.plan.score import Score
    from hypar.studies.grid import Comparison, Row

ALIKE = 1e-3
"""The relative difference of times below which strategies are alike."""

UNKNOWN = "the search does not fit"
"""What is said beside a strategy without a plan."""


def document_of(found: Comparison) -> Document:
    """Return the document of a comparison: times on a machine, or without one costs."""
    plan = _first(found)
    answer, tone = _answer(found)
    title = f"{' '.join(filter(None, [plan.model.name, on_machine(plan.score)]))}: {answer}"
    return Document(
        title=title,
        about=f"{asked(plan)}, counted by {found.convention}",
        tone=tone,
        parts=(data(_rows(found)), _times(found) if plan.score else _costs(found), _figure(found, title)),
        notes=tuple(_notes(found)),
    )


plugin = document_of


def comparison_data(found: Comparison) -> list[dict[str, Any]]:
    """Return one entry for each strategy, with its whole plan."""
    return [
        {
            "strategy": row.name,
            "cost": row.plan and row.plan.cost.model_dump(),
            "counted": row.plan
            and {
                "convention": found.convention,
                "value": exact_number(row.cost),
                "levels": [exact_number(cost) for cost in row.costs],
            },
            "gain": row.gain,
            **_score_gains(_score(found[0]), _score(row)),
            "note": row.note,
            "plan": row.plan and row.plan.to_data(),
        }
        for row in found
    ]


def _score_gains(base: Score | None, own: Score | None) -> dict[str, Any]:
    """Return the ratio of the baseline to each total of a score; empty without scores."""
    if base is None or own is None:
        return {}
    pairs = {name: (getattr(base, name), getattr(own, name)) for name in Totals._fields}
    gains = {name: before / after for name, (before, after) in pairs.items() if before and after}
    return {"score_gains": gains}


def unfit_lines(found: Comparison) -> list[str]:
    """Return a line for each strategy whose plan does not fit the memory of its machine."""
    scores = ((row.name, _score(row)) for row in found)
    return [f"{name} {fit(score)}" for name, score in scores if score and not score.fits]


def _rows(found: Comparison) -> list[dict[str, Any]]:
    """Return one row for each strategy: cost, gain over the first, and the totals of its score."""
    scored = _first(found).score is not None
    return [
        {
            "strategy": row.name,
            "cost": row.plan and exact_number(row.cost),
            "unit": row.plan and row.plan.cost.unit,
            "planned_by": row.plan and row.plan.cost.name,
            "convention": found.convention,
            "cost_gain": row.gain,
            **(_totals(_step(found, row)) if scored else {}),
            "search": row.plan and row.plan.search,
            "note": row.note,
        }
        for row in found
    ]


def _totals(step: Step) -> dict[str, Any]:
    fits = step.totals and step.tone != "bad"
    return {**totals_data(step.totals), "fits": fits, "time_gain": step.gain}


def _step(found: Comparison, row: Row) -> Step:
    """Return the totals of a strategy with a bar, or what is said in its place."""
    score, tone = _score(row), tone_of(_score(row))
    said = UNKNOWN if score is None else score.time_s if score.fits else fit(score)
    return Step({"strategy": row.name}, score, _score(found[0]), said, "" if tone == "good" else tone)


def _first(found: Comparison) -> Plan:
    return next(row.plan for row in found if row.plan)


def _score(row: Row) -> Score | None:
    return row.plan.score if row.plan else None


def _values(found: Comparison) -> dict[str, float]:
    """Return the times of the strategies; without a machine the costs of those that minimise the first one's."""
    cost = _first(found).cost.name
    return {
        row.name: row.plan.score.time_s if row.plan.score else row.cost
        for row in found
        if row.plan and (row.plan.score or row.plan.cost.name == cost)
    }


def _answer(found: Comparison) -> tuple[str, Tone]:
    """Name the best strategies that fit and their gain over the first one, and say whether they fit."""
    scores = {row.name: score for row in found if (score := _score(row))}
    values = {name: own for name, own in _values(found).items() if name not in scores or scores[name].fits}
    if not values:
        nearest = min(scores, key=lambda name: scores[name].memory_bytes)
        return f"no strategy fits; {nearest} needs least, {format_bytes(scores[nearest].memory_bytes)}", "bad"
    base, least = found[0], min(values.values())
    best = [name for name, value in values.items() if value <= least * (1 + (ALIKE if scores else 0))]
    tone = tone_of(scores.get(best[0]))
    if len(best) == len(found) > 1:
        return "all strategies are alike", tone
    one = len(best) == 1
    verb = ("is fastest" if one else "are fastest") if scores else "costs least" if one else "cost least"
    over = ""
    if base.plan and base.name not in best:
        less = f"{format_gain(base.cost, least)} less than {base.name}"
        over = against(base.name, scores[base.name], scores[best[0]]) if scores else less
    return ", ".join(filter(None, [f"{' and '.join(best)} {verb}", over])), tone


def _fastest_first(found: Comparison) -> list[Row]:
    """Return the rows with the fastest plan that fits first, those without a score last and in their order."""

    def place(row: Row) -> tuple[bool, bool, float]:
        score = _score(row)
        return (True, False, 0.0) if score is None else (False, not score.fits, score.time_s)

    return sorted(found, key=place)


def _times(found: Comparison) -> Table:
    """Return the totals of each strategy's step, the fastest first."""
    steps = (_step(found, row) for row in _fastest_first(found))
    return steps_table([Column(key="strategy")], steps, bars=True)


def _costs(found: Comparison) -> Table:
    """Return the cost by strategy and level."""
    cost = _first(found).cost
    levels = [f"H{level + 1}" for level in range(max(len(row.costs) for row in found))]
    rows = [
        {
            "strategy": row.name,
            **dict(zip(levels, row.costs, strict=False)),
            "cost": row.cost if row.plan else None,
            "gain": row.gain,
            "search": row.plan.search if row.plan else UNKNOWN,
        }
        for row in found
    ]
    columns = (
        Column(key="strategy"),
        *(Column(key=level, unit=cost.unit) for level in levels),
        Column(key="cost", head=cost.name, unit=cost.unit),
        Column(key="gain", unit="ratio"),
        Column(key="search"),
    )
    return Table(columns=columns, rows=rows)


def _figure(found: Comparison, title: str) -> Figure:
    """Return a bar for each strategy: the time of a step, or without a machine the cost."""
    values, plan = _values(found), _first(found)
    bad = {row.name for row in found if tone_of(_score(row)) == "bad"}
    marks = {place: FITS_NOT for place, name in enumerate(values) if name in bad}
    cost = {} if plan.score else {"unit": plan.cost.unit, "y_label": f"{plan.cost.name} of a step"}
    return picture(title, list(values), {"": list(values.values())}, marks=marks, **cost)


def _notes(found: Comparison) -> Iterator[Note]:
    """Yield what the gain is, each plan's claim or why there is none, and how costs and scores count."""
    base, what, than = found[0].name, "cost", "cheaper"
    if _first(found).score:
        what, than = "time", "faster"
    bad = f"; {base} {FITS_NOT}" if tone_of(_score(found[0])) == "bad" else ""
    yield Note("gain", f"how many times {than} than {base}, the {what} of {base} over the strategy's{bad}")
    claims: dict[str, list[str]] = {}
    for row in _fastest_first(found):
        claims.setdefault(row.note, []).append(row.name)
    yield from (Note(", ".join(names), claim) for claim, names in claims.items())
    plans = {row.name: row.plan for row in found if row.plan}
    direct = [name for name, plan in plans.items() if plan.score and score_convention(plan) == DIRECT]
    if 0 < len(direct) < sum(plan.score is not None for plan in plans.values()):
        names = ", ".join(direct)
        yield Note(
            "bytes", f"errors go directly in the scores of {names}, and are added up at once in the others"
        )
    planned: dict[str, list[str]] = {}
    for name, plan in plans.items():
        planned.setdefault(plan.cost.name, []).append(name)
    if len(planned) > 1:
        yield Note(
            "cost", "; ".join(f"{', '.join(names)} planned by {cost}" for cost, names in planned.items())
        )
    elif load_strategy(BASELINE).cost not in planned:
        yield Note("cost", f"every row is planned by {next(iter(planned))}")
