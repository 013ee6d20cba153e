"""The document of a comparison: strategies by their times on a machine, or without one by their costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypar.document import Column, Document, Note
from hypar.planning.counting import score_convention
from hypar.planning.resolved import BASELINE
from hypar.planning.strategies.base import load_strategy
from hypar.reports.of.base import FITS_NOT, data, grouped, over, picture, steps_table, subject, totals_data
from hypar.reports.words import asked, fit, tone_of
from hypar.schedule.scoring import Totals
from hypar.sharding.conventions import DIRECT
from hypar.units import exact_number, format_bytes, format_gain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.document import Table, Tone
    from hypar.plan.score import Score
    from hypar.studies.grid import Comparison, Run

ALIKE = 1e-3
"""The relative difference of times below which strategies are alike."""

UNKNOWN = "the search does not fit"
"""What is said beside a strategy without a plan."""


def document_of(found: Comparison) -> Document:
    """Return the document of a comparison."""
    plan, values = found.plan, _values(found)
    answer, tone = _cheapest(found, values)
    title = f"{subject(plan)}: {answer}"
    marks = {place: FITS_NOT for place, (_, row) in enumerate(values) if not row.fits}
    own = {} if plan.score else {"unit": plan.cost.unit, "y_label": f"{plan.cost.name} of a step"}
    names = [row.name for _, row in values]
    return Document(
        title=title,
        about=f"{asked(plan)}, counted by {found.convention}",
        tone=tone,
        parts=(
            data([_row(found, run) for run in found]),
            _strategies(found),
            picture(title, names, {"": [value for value, _ in values]}, marks=marks, **own),
        ),
        notes=tuple(_claims(found)),
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
            **_score_gains(found[0].totals, row.totals),
            "note": row.note,
            "plan": row.plan and row.plan.to_data(),
        }
        for row in found
    ]


def _score_gains(base: Totals | None, own: Totals | None) -> dict[str, Any]:
    """Return the ratio of the baseline to each total of a score; empty without scores."""
    if base is None or own is None:
        return {}
    pairs = zip(Totals._fields, base, own, strict=True)
    return {"score_gains": {name: before / after for name, before, after in pairs if before and after}}


def unfit_lines(found: Comparison) -> list[str]:
    """Return a line for each strategy whose plan does not fit the memory of its machine."""
    scores = ((row.name, _score(row)) for row in found)
    return [f"{name} {fit(score)}" for name, score in scores if score and not score.fits]


def _score(row: Run) -> Score | None:
    return row.plan.score if row.plan else None


def _values(found: Comparison) -> list[tuple[float, Run]]:
    """Return the times of the strategies; without a machine the costs of those that minimise the first one's."""
    cost = found.plan.cost.name
    return [
        (row.totals.time_s if row.totals else row.cost, row)
        for row in found
        if row.plan and (row.totals or row.plan.cost.name == cost)
    ]


def _cheapest(found: Comparison, values: Sequence[tuple[float, Run]]) -> tuple[str, Tone]:
    """Name the best strategies that fit and their gain over the first one, and say whether they fit."""
    fitting, base, timed = [each for each in values if each[1].fits], found[0], found.plan.score is not None
    if not fitting:
        held, name = min((row.totals.memory_bytes, row.name) for row in found if row.totals)
        return f"no strategy fits; {name} needs least, {format_bytes(held)}", "bad"
    first = min(value for value, _ in fitting)
    best = [row for value, row in fitting if value <= first * (1 + ALIKE * timed)]
    tone = tone_of(_score(best[0]))
    if len(best) == len(found) > 1:
        return "all strategies are alike", tone
    verb = ("is fastest", "are fastest") if timed else ("costs least", "cost least")
    answer = f"{' and '.join(row.name for row in best)} {verb[len(best) > 1]}"
    if base.plan and base not in best:
        less = f"{format_gain(base.cost, first)} less than {base.name}"
        answer += f", {over(base, best[0]) if timed else less}"
    return answer, tone


def _row(found: Comparison, run: Run) -> dict[str, Any]:
    own = run.plan
    times = {"fits": run.totals and run.fits, "time_gain": found.speedup(run)}
    return {
        "strategy": run.name,
        "cost": own and exact_number(run.cost),
        "unit": own and own.cost.unit,
        "planned_by": own and own.cost.name,
        "convention": found.convention,
        "cost_gain": run.gain,
        **(totals_data(run) | times if found.plan.score else {}),
        "search": own and own.search,
        "note": run.note,
    }


def _fastest_first(found: Comparison) -> list[Run]:
    """Return the rows with the fastest plan that fits first, those without a score last and in their order."""
    return sorted(
        found, key=lambda row: (False, not row.fits, row.totals.time_s) if row.totals else (True, False, 0.0)
    )


def _strategies(found: Comparison) -> Table:
    """Return the totals of each strategy's step, the fastest first; without a machine the costs by level."""
    timed, cost = found.plan.score is not None, found.plan.cost
    keys = [] if timed else [f"H{level + 1}" for level in range(max(len(row.costs) for row in found))]
    heads = [Column(key="strategy"), *(Column(key=key, unit=cost.unit) for key in keys)]
    if not timed:
        heads.append(Column(key="cost", head=cost.name, unit=cost.unit))
    rows = []
    for row in _fastest_first(found):
        said, tone = _said(row)
        costs = dict(zip(keys, row.costs, strict=False))
        total, gain = (None, found.speedup(row)) if timed else (row.cost if row.plan else None, row.gain)
        own = {"strategy": row.name, **costs, "cost": total, "gain": gain, "said": said, "tone": tone}
        rows.append({**totals_data(row), **own})
    beside = Column(key="said", head="", unit="bar") if timed else Column(key="said", head="search")
    return steps_table(heads, rows, beside)


def _said(row: Run) -> tuple[str | float, Tone]:
    """Return a bar's time, or what is said in its place; without a machine the search."""
    score = _score(row)
    if row.plan is None or score is None:
        return row.plan.search if row.plan else UNKNOWN, ""
    tone = tone_of(score)
    return score.time_s if score.fits else FITS_NOT, "" if tone == "good" else tone


def _claims(found: Comparison) -> Iterator[Note]:
    """Yield what the gain is, each plan's claim or why there is none, and how costs and scores count."""
    base = found[0]
    what, than = ("time", "faster") if found.plan.score else ("cost", "cheaper")
    bad = f"; {base.name} {FITS_NOT}" if base.totals and not base.fits else ""
    yield Note(
        "gain", f"how many times {than} than {base.name}, the {what} of {base.name} over the strategy's{bad}"
    )
    claims = grouped((row.note, row.name) for row in _fastest_first(found))
    yield from (Note(", ".join(names), claim) for claim, names in claims.items())
    plans = {row.name: row.plan for row in found if row.plan}
    direct = [name for name, own in plans.items() if own.score and score_convention(own) == DIRECT]
    if 0 < len(direct) < sum(own.score is not None for own in plans.values()):
        names = ", ".join(direct)
        yield Note(
            "bytes", f"errors go directly in the scores of {names}, and are added up at once in the others"
        )
    planned = grouped((own.cost.name, name) for name, own in plans.items())
    if len(planned) > 1:
        yield Note(
            "cost", "; ".join(f"{', '.join(names)} planned by {cost}" for cost, names in planned.items())
        )
    elif load_strategy(BASELINE).cost not in planned:
        yield Note("cost", f"every row is planned by {next(iter(planned))}")
