"""The document of the runs of a grid, as a comparison, a sweep or an exploration: the best run, and a row for each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypar.document import Column, Document, Figure, Note, Table
from hypar.machine.heterogeneous import HeterogeneousMachine
from hypar.machine.machine import Machine
from hypar.machine.profiles import Profile
from hypar.plan.request import PARAMETERS
from hypar.plan.score import Totals
from hypar.planning.counting import score_convention
from hypar.planning.resolved import BASELINE
from hypar.planning.strategies.base import load_strategy
from hypar.reports.of.base import data
from hypar.reports.words import asked, fit, on_machine, tone_of, unfit
from hypar.sharding.conventions import DIRECT
from hypar.sharding.dims import choice_word, vocabulary
from hypar.units import exact_number, faster_than, format_bytes, format_gain, format_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hypar.document import Tone
    from hypar.plan.plan import Plan
    from hypar.plan.score import Score
    from hypar.studies.explore import Exploration
    from hypar.studies.grid import Comparison, Run, Runs
    from hypar.studies.sweep import Sweep

ALIKE = 1e-3
"""The relative difference of times below which strategies are alike."""

DECADES = 30
"""Ratio of the longest to the shortest time from which a picture needs a logarithmic scale."""

SHOWN = 10
"""Points of an exploration that are shown unless more are asked for."""

MOST_BARS = 16
"""Number of points that are plotted as bars with their names; more are a line."""

NUMBERS = {"levels", "array", "batch"}
"""The axes whose values stand at the right of a column."""

FITS_NOT, NOT_PLANNED, UNKNOWN = "does not fit", "not planned", "the search does not fit"
"""What is said beside a plan that a device's memory does not hold, a run that is refused, and a strategy without a plan."""


def document_of(runs: Runs, top: int = SHOWN) -> Document:
    """Return the document of some runs; of an exploration the ``top`` points, while its data has all."""
    documents: dict[str, Callable[[Any, int], Document]] = {
        "Comparison": _compared,
        "Sweep": _swept,
        "Exploration": _explored,
    }
    return documents[type(runs).__name__](runs, top)


plugin = document_of


def rows_of(runs: Any) -> list[dict[str, Any]]:
    """Return one row for each run: its axes, what all runs share, and the totals of its score."""
    row = {"Comparison": _compared_row, "Sweep": _swept_row, "Exploration": _explored_row}[
        type(runs).__name__
    ]
    return [row(runs, run) for run in runs]


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
    return [f"{row.name} {line}" for row in found if (line := unfit(_score(row)))]


def _score(row: Run) -> Score | None:
    return row.plan.score if row.plan else None


def _data(runs: Runs) -> Table:
    """Return these rows with texts for values that are mappings, as of a topology."""
    rows = (
        {key: _text(own) if isinstance(own, dict) else own for key, own in row.items()}
        for row in rows_of(runs)
    )
    return data(list(rows))


def _totals(run: Run) -> dict[str, float | None]:
    """Return the totals of a step by their keys; without a step the keys alone."""
    return dict(zip(Totals._fields, run.totals or [None] * len(Totals._fields), strict=True))


def _table(heads: Iterable[Column], rows: Iterable[dict[str, Any]], beside: Column, digits: int = 3) -> Table:
    """Return a table of the totals of steps; the gain of a row is a number, and ``beside`` the head of what is said."""
    lines = [
        {**row, "gain": None if row["gain"] is None else format_gain(row["gain"], 1, digits)} for row in rows
    ]
    columns = (
        *heads,
        Column(key="time_s", head="time", unit="seconds"),
        Column(key="gain", unit="ratio"),
        Column(key="energy_j", head="energy", unit="joules"),
        Column(key="communication_bytes", head="received", unit="bytes"),
        Column(key="memory_bytes", head="memory", unit="bytes"),
        beside,
    )
    return Table(columns=columns, rows=lines)


def _picture(title: str, x: Sequence[Any], series: dict[str, list[float | None]], **more: Any) -> Figure:
    """Return bars over names, or points where the values span decades; ``more`` holds other fields of a figure."""
    known = [value for values in series.values() for value in values if value]
    log = bool(known) and max(known) > DECADES * min(known)
    own = {"kind": "points" if log else "bars", "unit": "seconds", "y_label": "time of a step", "log": log}
    return Figure(**{**own, **more, "title": title, "x": x, "series": series})


def _grouped(pairs: Iterable[tuple[str, Any]]) -> dict[str, list[Any]]:
    """Return the values of each key, in order."""
    found: dict[str, list[Any]] = {}
    for key, own in pairs:
        found.setdefault(key, []).append(own)
    return found


def _subject(plan: Plan) -> str:
    return " ".join(filter(None, [plan.model.name, on_machine(plan.score)]))


def _over(base: Run, own: Run) -> str:
    """Compare a step with that of the baseline."""
    if base.totals is None or own.totals is None:
        return ""
    unfit = "" if base.fits else f", which {FITS_NOT}"
    return faster_than(base.name, base.totals.time_s, own.totals.time_s) + unfit


# Comparisons: strategies by their times on a machine, or without one by their costs


def _compared(found: Comparison, _: int) -> Document:
    plan, values = found.plan, _values(found)
    answer, tone = _cheapest(found, values)
    title = f"{_subject(plan)}: {answer}"
    marks = {place: FITS_NOT for place, (_, row) in enumerate(values) if not row.fits}
    own = {} if plan.score else {"unit": plan.cost.unit, "y_label": f"{plan.cost.name} of a step"}
    names = [row.name for _, row in values]
    return Document(
        title=title,
        about=f"{asked(plan)}, counted by {found.convention}",
        tone=tone,
        parts=(
            _data(found),
            _strategies(found),
            _picture(title, names, {"": [value for value, _ in values]}, marks=marks, **own),
        ),
        notes=tuple(_claims(found)),
    )


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
        answer += f", {_over(base, best[0]) if timed else less}"
    return answer, tone


def _compared_row(found: Comparison, run: Run) -> dict[str, Any]:
    own = run.plan
    times = {"fits": run.totals and run.fits, "time_gain": found.speedup(run)}
    return {
        "strategy": run.name,
        "cost": own and exact_number(run.cost),
        "unit": own and own.cost.unit,
        "planned_by": own and own.cost.name,
        "convention": found.convention,
        "cost_gain": run.gain,
        **(_totals(run) | times if found.plan.score else {}),
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
        rows.append(_totals(row) | own)
    beside = Column(key="said", head="", unit="bar") if timed else Column(key="said", head="search")
    return _table(heads, rows, beside)


def _said(row: Run) -> tuple[str | float, Tone]:
    """Return a bar's time, or what is said in its place; without a machine the search."""
    score = _score(row)
    if row.plan is None or score is None:
        return row.plan.search if row.plan else UNKNOWN, ""
    tone = tone_of(score)
    return score.time_s if score.fits else fit(score), "" if tone == "good" else tone


def _claims(found: Comparison) -> Iterator[Note]:
    """Yield what the gain is, each plan's claim or why there is none, and how costs and scores count."""
    base = found[0]
    what, than = ("time", "faster") if found.plan.score else ("cost", "cheaper")
    bad = f"; {base.name} {FITS_NOT}" if base.totals and not base.fits else ""
    yield Note(
        "gain", f"how many times {than} than {base.name}, the {what} of {base.name} over the strategy's{bad}"
    )
    claims = _grouped((row.note, row.name) for row in _fastest_first(found))
    yield from (Note(", ".join(names), claim) for claim, names in claims.items())
    plans = {row.name: row.plan for row in found if row.plan}
    direct = [name for name, own in plans.items() if own.score and score_convention(own) == DIRECT]
    if 0 < len(direct) < sum(own.score is not None for own in plans.values()):
        names = ", ".join(direct)
        yield Note(
            "bytes", f"errors go directly in the scores of {names}, and are added up at once in the others"
        )
    planned = _grouped((own.cost.name, name) for name, own in plans.items())
    if len(planned) > 1:
        yield Note(
            "cost", "; ".join(f"{', '.join(names)} planned by {cost}" for cost, names in planned.items())
        )
    elif load_strategy(BASELINE).cost not in planned:
        yield Note("cost", f"every row is planned by {next(iter(planned))}")


# Sweeps: combinations by the axes that vary


def _swept(runs: Sweep, _: int) -> Document:
    heads = [Column(key=name, unit="count" if name in NUMBERS else "text") for name in _axes(runs)]
    rows = []
    for run in runs:
        said, tone = "" if run.fits else FITS_NOT if run.totals else NOT_PLANNED, "" if run.fits else "bad"
        own = {"gain": runs.speedup(run), "said": said, "tone": tone}
        rows.append(_named(runs, run) | _totals(run) | own)
    answer, tone = _fastest(runs)
    title = f"{runs.model}: {answer}"
    return Document(
        title=title,
        about=", ".join([*_held(runs), f"counted by {runs.convention}"]),
        tone=tone,
        parts=(_data(runs), _table(heads, rows, Column(key="said", head="")), _along(runs, title)),
        notes=(Note("gain", "how many times faster than the first row of the same batch"), *_refusals(runs)),
    )


def _axes(runs: Sweep) -> Sequence[str]:
    """Return the axes that vary; the strategy if none does."""
    return runs.varied or ("strategy",)


def _named(runs: Sweep, run: Run) -> dict[str, Any]:
    return {name: _text(run.axes[name]) for name in _axes(runs)}


def _text(value: Any) -> str:
    """Format a value on an axis, or of an argument."""
    if isinstance(value, Machine | HeterogeneousMachine | Profile):
        return value.name
    if isinstance(value, tuple):
        return "x".join(map(str, value))
    if isinstance(value, Path):
        return value.stem
    return ", ".join(map(str, value.values())) if isinstance(value, dict) else str(value)


def _swept_row(runs: Sweep, run: Run) -> dict[str, Any]:
    texts = {name: _text(run.axes[name]) for name in ("hardware", "array") if name in run.axes}
    common = _asked(runs) | {"convention": runs.convention}
    return {**run.axes, **texts, **common, **_totals(run), "fits": run.fits, "note": run.note}


def _asked(runs: Sweep) -> dict[str, str]:
    """Return the arguments that were given for all runs, as text."""
    given = ((name, runs.asked.get(name)) for name in PARAMETERS)
    return {
        name: " ".join(map(str, value)) if isinstance(value, list | tuple) else _text(value)
        for name, value in given
        if value is not None and value is not False and value not in ((), [], "sgd")
    }


def _held(runs: Sweep) -> Iterator[str]:
    """Yield the values that all combinations share."""
    for name, value in runs[0].axes.items():
        if name not in _axes(runs):
            yield f"{name} {_text(value)}".rstrip()
    for name, text in _asked(runs).items():
        yield f"planned by {text}" if name == "cost" else name if text == "True" else f"{name} {text}"


def _fastest(runs: Sweep) -> tuple[str, Tone]:
    """Name the fastest combination, for each sample where batches differ."""
    fitting = [(run.totals.time_s, run) for run in runs if run.totals and run.fits]
    if not fitting:
        return "no combination fits", "bad"
    time, best = min(fitting, key=lambda each: each[0] / each[1].axes["batch"])
    found = ", ".join(f"{name} {text}" for name, text in _named(runs, best).items())
    sample = " a sample" if "batch" in _axes(runs) else ""
    return f"{found} is fastest{sample}, {format_seconds(time)} a step", ""


def _along(runs: Sweep, title: str) -> Figure:
    """Plot times along the innermost axis that varies, with a series for each combination of the others."""
    *others, along = _axes(runs)
    places = list(dict.fromkeys(_text(run.axes[along]) for run in runs))
    series: dict[str, list[float | None]] = {}
    for run in runs:
        own = {name: run.axes[name] for name in others}
        named = (_text(own) if isinstance(own, str) else f"{name} {_text(own)}" for name, own in own.items())
        values = series.setdefault(", ".join(named), [None] * len(places))
        values[places.index(_text(run.axes[along]))] = run.totals and run.totals.time_s
    if len(places) == 1 or not all(type(run.axes[along]) in {int, float} for run in runs):
        return _picture(title, places, series)
    return _picture(title, list(map(float, places)), series, kind="lines", x_label=along)


def _refusals(runs: Sweep) -> Iterator[Note]:
    """Yield each reason for which combinations are not planned once, with the values that they have in common."""
    every, label = [_named(runs, run) for run in runs], NOT_PLANNED
    for reason, own in _grouped((run.note, _named(runs, run)) for run in runs if not run.totals).items():
        named = []
        for name in _axes(runs):
            values = dict.fromkeys(each[name] for each in own)
            if len(values) < len({each[name] for each in every}):
                named.append(f"{name} {', '.join(values)}")
        yield Note(label, ": ".join(filter(None, ["; ".join(named), reason])))
        label = ""


# Explorations: points by the words of each free layer, level by level


def _explored(found: Exploration, top: int) -> Document:
    best, number, words = (
        next((point for point in found if point.fits), None),
        f"{len(found):,} points",
        _words(found),
    )
    answer = f"none of {number} fits"
    if best is not None:
        answer = (
            f"the fastest of {number} {'is the plan,' if best.own else 'is'} {_over(found.baseline, best)}"
        )
    title = f"{_subject(found.plan)}: {answer}"
    hidden = f", {len(found) - top:,} of them not shown" if len(found) > top else ""
    own = next((place for place, point in enumerate(found, 1) if point.own), None)
    where = f"the plan of {found.plan.strategy} is " + ("not one of them" if own is None else f"number {own}")
    return Document(
        title=title,
        about=f"{asked(found.plan)}, counted by {found.convention}",
        tone="" if best else "bad",
        parts=(_data(found), _points(found, words, top), _ranks(found, words, title)),
        notes=(
            Note("gain", "how many times faster than dp, the time of dp over the point's"),
            Note("points", f"{number}{hidden}; {where}"),
        ),
    )


def _words(found: Exploration) -> list[dict[str, list[str]]]:
    """Return the words of each free layer at each point, level by level, in the words of one paper for all points."""
    words = vocabulary({dim for point in found for choice in point.axes.values() for dim in choice.divided})
    grids = found.plan.in_grids
    return [
        _grouped(
            (place[0], choice_word(choice.degrees, found.ways[place], words, grids=grids))
            for place, choice in point.axes.items()
        )
        for point in found
    ]


def _explored_row(found: Exploration, run: Run) -> dict[str, Any]:
    texts = {
        f"{layer} H{level + 1}": choice.text(found.ways[layer, level])
        for (layer, level), choice in run.axes.items()
    }
    own = {"dp_over_it": found.speedup(run), "fits": run.fits, "own": run.own}
    return {**texts, **_totals(run), "convention": found.convention, **own}


def _points(found: Exploration, words: list[dict[str, list[str]]], top: int) -> Table:
    """Return one row for each of the fastest points."""
    heads = [Column(key=layer, head=f"{layer} {_levels(own)}") for layer, own in _grouped(found.ways).items()]
    rows = []
    for point, own in zip(found[:top], words, strict=False):
        said = ", ".join(filter(None, ["the plan" * point.own, FITS_NOT * (not point.fits)]))
        more = {"gain": found.speedup(point), "said": said, "tone": "" if point.fits else "bad"}
        rows.append({layer: " ".join(each) for layer, each in own.items()} | _totals(point) | more)
    return _table(heads, rows, Column(key="said", head=""), digits=4)


def _levels(levels: Sequence[int]) -> str:
    """Name levels, more than two successive ones by the first and the last."""
    if len(levels) > 2 and list(levels) == list(range(levels[0], levels[-1] + 1)):
        return f"H{levels[0] + 1}-H{levels[-1] + 1}"
    return " ".join(f"H{level + 1}" for level in levels)


def _ranks(found: Exploration, words: list[dict[str, list[str]]], title: str) -> Figure:
    """Plot each point's time, the fastest first, with the names of the fastest and of the plan."""
    few = len(found) <= MOST_BARS
    names = [
        ", ".join(
            f"{layer} {each[0] if len({*each}) == 1 else ' '.join(each)}" for layer, each in own.items()
        )
        for own in words
    ]
    marks = {0: "fastest" if few else f"fastest: {names[0]}"}
    for rank, point in enumerate(found):
        if point.own:
            marks[rank] = f"{marks[rank]}; the plan" if rank in marks else f"the plan, number {rank + 1}"
    series: dict[str, list[float | None]] = {"": [run.totals and run.totals.time_s for run in found]}
    if few:
        return _picture(title, names, series, marks=marks)
    x, label = list(range(len(found))), "plans that are faster"
    return _picture(title, x, series, marks=marks, kind="lines", log=False, x_label=label)
