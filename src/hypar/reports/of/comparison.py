"""The document of a comparison: the best strategy, and a row for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypar.document import Column, Document, Figure, Note, Table
from hypar.plan.score import Totals
from hypar.planning.counting import score_convention
from hypar.planning.resolved import BASELINE
from hypar.planning.strategies.base import load_strategy
from hypar.reports.of.base import data, spans_decades, totals_cells, totals_columns
from hypar.reports.words import against, asked, fit, on_machine, tone_of, unfit
from hypar.sharding.conventions import DIRECT
from hypar.units import exact_number, format_gain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypar.document import Tone
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
    named = f"{plan.model.name} {on_machine(plan.score)}".rstrip()
    return Document(
        title=f"{named}: {answer}",
        about=f"{asked(plan)}, counted by {found.convention}",
        tone=tone,
        parts=(
            data(comparison_rows(found)),
            _times(found) if plan.score else _costs(found),
            _figure(found, f"{named}: {answer}"),
        ),
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
    return {
        "score_gains": {name: before / after for name, (before, after) in pairs.items() if before and after}
    }


def comparison_rows(found: Comparison) -> list[dict[str, Any]]:
    """Return one row for each strategy: cost, gain over the first, and the totals of its score."""
    return [
        {
            "strategy": row.name,
            "cost": row.plan and exact_number(row.cost),
            "unit": row.plan and row.plan.cost.unit,
            "planned_by": row.plan and row.plan.cost.name,
            "convention": found.convention,
            "cost_gain": row.gain,
            **(_totals(found, _score(row)) if _first(found).score else {}),
            "search": row.plan and row.plan.search,
            "note": row.note,
        }
        for row in found
    ]


def _totals(found: Comparison, score: Score | None) -> dict[str, Any]:
    return {
        **totals_cells(score),
        "fits": score and score.fits,
        "time_gain": _times_faster(found, score),
    }


def fastest_first(found: Comparison) -> list[Row]:
    """Return the rows with the fastest plan that fits first, those without a score last and in their order."""

    def place(row: Row) -> tuple[bool, bool, float]:
        score = _score(row)
        return (True, False, 0.0) if score is None else (False, not score.fits, score.time_s)

    return sorted(found, key=place)


def unfit_lines(found: Comparison) -> list[str]:
    """Return a line for each strategy whose plan does not fit the memory of its machine."""
    return [f"{row.name} {line}" for row in found if (line := unfit(_score(row)))]


def _first(found: Comparison) -> Plan:
    return next(row.plan for row in found if row.plan)


def _score(row: Row) -> Score | None:
    return row.plan.score if row.plan else None


def _times_faster(found: Comparison, score: Score | None) -> float | None:
    base = _score(found[0])
    return base.time_s / score.time_s if base and score else None


def _values(found: Comparison) -> dict[str, float]:
    """Return the times of the strategies; without a machine the costs of those that minimise the first one's."""
    first = _first(found)
    return {
        row.name: row.plan.score.time_s if row.plan.score else row.cost
        for row in found
        if row.plan and (row.plan.score or row.plan.cost.name == first.cost.name)
    }


def _answer(found: Comparison) -> tuple[str, Tone]:
    """Name the best strategies that fit and their gain over the first one, and say whether they fit."""
    scores = {row.name: score for row in found if (score := _score(row))}
    values = {name: own for name, own in _values(found).items() if name not in scores or scores[name].fits}
    if not values:
        return "no strategy fits", "bad"
    least, base = min(values.values()), found[0]
    best = [name for name, value in values.items() if value <= least * (1 + (ALIKE if scores else 0))]
    tone = tone_of(scores.get(best[0]))
    if len(best) == len(found) > 1:
        return "all strategies are alike", tone
    several = len(best) > 1
    if scores:
        verb = "are fastest" if several else "is fastest"
        over = against(base.name, scores[base.name], scores[best[0]]) if base.name in scores else ""
    else:
        verb = "cost least" if several else "costs least"
        over = f"{format_gain(base.cost, least)} less than {base.name}" if base.plan else ""
    over = "" if base.name in best or not over else f", {over}"
    return f"{' and '.join(best)} {verb}{over}", tone


def _times(found: Comparison) -> Table:
    """Return time, energy, bytes received and memory by strategy, the fastest first."""
    rows = []
    for row in fastest_first(found):
        score = _score(row)
        bar: Any = UNKNOWN if score is None else score.time_s if score.fits else fit(score)
        gain = _times_faster(found, score)
        rows.append(
            {
                "strategy": row.name,
                **totals_cells(score),
                "gain": gain,
                "bar": bar,
                "tone": tone_of(score).replace("good", ""),
            }
        )
    columns = (Column(key="strategy"), *totals_columns(), Column(key="bar", head="", unit="bar"))
    return Table(columns=columns, rows=rows)


def _costs(found: Comparison) -> Table:
    """Return the cost by strategy and level."""
    plan = _first(found)
    levels = [f"H{level + 1}" for level in range(max(len(row.costs) for row in found))]
    columns = (
        Column(key="strategy"),
        *(Column(key=level, unit=plan.cost.unit) for level in levels),
        Column(key="cost", head=plan.cost.name, unit=plan.cost.unit),
        Column(key="gain", unit="ratio"),
        Column(key="search"),
    )
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
    return Table(columns=columns, rows=rows)


def _figure(found: Comparison, title: str) -> Figure:
    """Return a bar for each strategy: the time of a step, or without a machine the cost."""
    values, plan = _values(found), _first(found)
    too_large = [row.name for row in found if tone_of(_score(row)) == "bad"]
    return Figure(
        kind="points" if spans_decades([*values.values()]) else "bars",
        title=title,
        x=list(values),
        series={"": list(values.values())},
        unit="seconds" if plan.score else plan.cost.unit,
        y_label="time of a step" if plan.score else f"{plan.cost.name} of a step",
        log=spans_decades([*values.values()]),
        marks={place: "does not fit" for place, name in enumerate(values) if name in too_large},
    )


def _notes(found: Comparison) -> Iterator[Note]:
    """Yield what the gain is, each plan's claim or why there is none, and how costs and scores count."""
    base = found[0].name
    what = ("time", "faster") if _first(found).score else ("cost", "cheaper")
    fits = f"; {base} does not fit" * (tone_of(_score(found[0])) == "bad")
    yield Note(
        "gain", f"how many times {what[1]} than {base}, the {what[0]} of {base} over the strategy's{fits}"
    )
    claims: dict[str, list[str]] = {}
    for row in fastest_first(found):
        claims.setdefault(row.note, []).append(row.name)
    yield from (Note(", ".join(names), claim) for claim, names in claims.items())
    direct = [
        row.name for row in found if row.plan and row.plan.score and score_convention(row.plan) == DIRECT
    ]
    if 0 < len(direct) < sum(_score(row) is not None for row in found):
        names = ", ".join(direct)
        yield Note(
            "bytes", f"errors go directly in the scores of {names}, and are added up at once in the others"
        )
    planned: dict[str, list[str]] = {}
    for row in found:
        if row.plan is not None:
            planned.setdefault(row.plan.cost.name, []).append(row.name)
    if len(planned) > 1:
        yield Note(
            "cost", "; ".join(f"{', '.join(names)} planned by {cost}" for cost, names in planned.items())
        )
    elif load_strategy(BASELINE).cost not in planned:
        yield Note("cost", f"every row is planned by {next(iter(planned))}")
