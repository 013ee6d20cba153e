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
    from collections.abc import Iterable, Iterator, Sequence

    from hypar.document import Tone
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

FITS_NOT, NOT_PLANNED, UNKNOWN = "does not fit", "not planned", "the search does not fit"
"""What is said beside a plan that a device's memory does not hold, a run that is refused, and a strategy without a plan."""


def document_of(runs: Runs, top: int = SHOWN) -> Document:
    """Return the document of some runs; of an exploration the ``top`` points, while its data has all."""
    return _view(runs, top).document()


plugin = document_of


def rows_of(runs: Runs) -> list[dict[str, Any]]:
    """Return one row for each run: its axes, what all runs share, and the totals of its score."""
    return [_view(runs).data(run) for run in runs]


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


def _view(runs: Any, top: int = SHOWN) -> _View:
    views = {"Comparison": _Compared, "Sweep": _Swept, "Exploration": _Explored}
    return views[type(runs).__name__](runs, top)


def _score(row: Run) -> Score | None:
    return row.plan.score if row.plan else None


class _View:
    """What readers see of some runs; each kind of runs says what differs."""

    runs: Any
    gain = ""
    digits = 3
    beside = Column(key="said", head="")

    def __init__(self, runs: Any, top: int) -> None:
        self.runs, self.top = runs, top

    def document(self) -> Document:
        answer, tone = self.answer()
        title = f"{self.subject()}: {answer}"
        return Document(
            title=title,
            about=", ".join([*self.about(), f"counted by {self.runs.convention}"]),
            tone=tone,
            parts=(data([_plain(self.data(run)) for run in self.runs]), self.table(), self.figure(title)),
            notes=(Note("gain", self.gain), *self.notes()),
        )

    def subject(self) -> str:
        """Name the network, and the machine if there is one for all."""
        plan = self.runs.plan
        return " ".join(filter(None, [plan.model.name, on_machine(plan.score)]))

    def about(self) -> Iterable[str]:
        """Return what was asked of all runs."""
        return [asked(self.runs.plan)]

    def answer(self) -> tuple[str, Tone]:
        """Name the best run that fits, and say what that means."""
        raise NotImplementedError

    def data(self, run: Run) -> dict[str, Any]:
        """Return the row of a run as JSON and CSV have it."""
        raise NotImplementedError

    def shown(self) -> Iterable[Run]:
        """Return the runs in the order of the table."""
        return iter(self.runs)

    def heads(self) -> Iterable[Column]:
        """Return the columns that name a run."""
        raise NotImplementedError

    def named(self, run: Run) -> dict[str, Any]:
        """Return the texts that name it, by column."""
        raise NotImplementedError

    def times(self, run: Run) -> float | None:
        """Return the gain."""
        found: float | None = self.runs.speedup(run)
        return found

    def said(self, run: Run) -> tuple[str | float, Tone]:
        """Return what stands beside its totals, or a number for a bar, and the tone of its row."""
        return ("", "") if run.fits else (FITS_NOT, "bad")

    def table(self) -> Table:
        """Return one row for each run with the totals of its step."""
        rows = []
        for run in self.shown():
            (said, tone), times = self.said(run), self.times(run)
            gain = None if times is None else format_gain(times, 1, self.digits)
            rows.append({**self.named(run), **_totals(run), "gain": gain, "said": said, "tone": tone})
        columns = (
            *self.heads(),
            Column(key="time_s", head="time", unit="seconds"),
            Column(key="gain", unit="ratio"),
            Column(key="energy_j", head="energy", unit="joules"),
            Column(key="communication_bytes", head="received", unit="bytes"),
            Column(key="memory_bytes", head="memory", unit="bytes"),
            self.beside,
        )
        return Table(columns=columns, rows=rows)

    def figure(self, title: str) -> Figure:
        """Return the picture of the times."""
        raise NotImplementedError

    def notes(self) -> Iterable[Note]:
        """Return the notes after that about the gain."""
        raise NotImplementedError


def _totals(run: Run) -> dict[str, float | None]:
    """Return the totals of a step by their keys; without a step the keys alone."""
    return dict(zip(Totals._fields, run.totals or [None] * len(Totals._fields), strict=True))


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with texts for values that are mappings, as of a topology."""
    return {key: _text(value) if isinstance(value, dict) else value for key, value in row.items()}


def _over(base: Run, own: Run) -> str:
    """Compare a step with that of the baseline."""
    if base.totals is None or own.totals is None:
        return ""
    unfit = "" if base.fits else f", which {FITS_NOT}"
    return faster_than(base.name, base.totals.time_s, own.totals.time_s) + unfit


def _picture(title: str, x: Sequence[Any], series: dict[str, list[float | None]], **more: Any) -> Figure:
    """Return bars over names, or points where the values span decades; ``more`` holds other fields of a figure."""
    known = [value for values in series.values() for value in values if value]
    log = bool(known) and max(known) > DECADES * min(known)
    own = {"kind": "points" if log else "bars", "unit": "seconds", "y_label": "time of a step", "log": log}
    return Figure(**{**own, **more, "title": title, "x": x, "series": series})


class _Compared(_View):
    """Strategies by their times on a machine, or without one by their costs."""

    runs: Comparison

    def __init__(self, runs: Comparison, top: int) -> None:
        super().__init__(runs, top)
        self.timed, self.cost = runs.plan.score is not None, runs.plan.cost
        self.beside = (
            Column(key="said", head="", unit="bar") if self.timed else Column(key="said", head="search")
        )
        base, (what, than) = runs[0], ("time", "faster") if self.timed else ("cost", "cheaper")
        bad = f"; {base.name} {FITS_NOT}" if base.totals and not base.fits else ""
        self.gain = (
            f"how many times {than} than {base.name}, the {what} of {base.name} over the strategy's{bad}"
        )

    def _values(self) -> list[tuple[float, Run]]:
        """Return the times of the strategies; without a machine the costs of those that minimise the first one's."""
        return [
            (row.totals.time_s if row.totals else row.cost, row)
            for row in self.runs
            if row.plan and (row.totals or row.plan.cost.name == self.cost.name)
        ]

    def answer(self) -> tuple[str, Tone]:
        values = [(value, row) for value, row in self._values() if row.fits]
        if not values:
            held, name = min((row.totals.memory_bytes, row.name) for row in self.runs if row.totals)
            return f"no strategy fits; {name} needs least, {format_bytes(held)}", "bad"
        base, first = self.runs[0], min(value for value, _ in values)
        best = [row for value, row in values if value <= first * (1 + ALIKE * self.timed)]
        tone = tone_of(_score(best[0]))
        if len(best) == len(self.runs) > 1:
            return "all strategies are alike", tone
        verb = ("is fastest", "are fastest") if self.timed else ("costs least", "cost least")
        answer = f"{' and '.join(row.name for row in best)} {verb[len(best) > 1]}"
        if base.plan and base not in best:
            less = f"{format_gain(base.cost, first)} less than {base.name}"
            answer += f", {_over(base, best[0]) if self.timed else less}"
        return answer, tone

    def data(self, run: Run) -> dict[str, Any]:
        own = run.plan
        times = {"fits": run.totals and run.fits, "time_gain": self.runs.speedup(run)}
        return {
            "strategy": run.name,
            "cost": own and exact_number(run.cost),
            "unit": own and own.cost.unit,
            "planned_by": own and own.cost.name,
            "convention": self.runs.convention,
            "cost_gain": run.gain,
            **(_totals(run) | times if self.timed else {}),
            "search": own and own.search,
            "note": run.note,
        }

    def shown(self) -> Iterable[Run]:
        """Return the fastest plan that fits first, those without a score last and in their order."""
        return sorted(
            self.runs,
            key=lambda row: (False, not row.fits, row.totals.time_s) if row.totals else (True, False, 0.0),
        )

    def heads(self) -> Iterable[Column]:
        levels = 0 if self.timed else max(len(row.costs) for row in self.runs)
        costs = (Column(key=f"H{level + 1}", unit=self.cost.unit) for level in range(levels))
        total = () if self.timed else (Column(key="cost", head=self.cost.name, unit=self.cost.unit),)
        return [Column(key="strategy"), *costs, *total]

    def named(self, run: Run) -> dict[str, Any]:
        levels = {f"H{level + 1}": cost for level, cost in enumerate(run.costs)}
        return {"strategy": run.name, **levels, "cost": run.cost if run.plan else None}

    def times(self, run: Run) -> float | None:
        return super().times(run) if self.timed else run.gain

    def said(self, run: Run) -> tuple[str | float, Tone]:
        score = _score(run)
        if run.plan is None or score is None:
            return run.plan.search if run.plan else UNKNOWN, ""
        tone = tone_of(score)
        return score.time_s if score.fits else fit(score), "" if tone == "good" else tone

    def figure(self, title: str) -> Figure:
        values = self._values()
        marks = {place: FITS_NOT for place, (_, row) in enumerate(values) if not row.fits}
        own = {} if self.timed else {"unit": self.cost.unit, "y_label": f"{self.cost.name} of a step"}
        names, series = [row.name for _, row in values], {"": [value for value, _ in values]}
        return _picture(title, names, series, marks=marks, **own)

    def notes(self) -> Iterator[Note]:
        """Yield each plan's claim or why there is none, and how scores and costs count."""
        claims = _grouped((row.note, row.name) for row in self.shown())
        yield from (Note(", ".join(names), claim) for claim, names in claims.items())
        plans = {row.name: row.plan for row in self.runs if row.plan}
        direct = [name for name, own in plans.items() if own.score and score_convention(own) == DIRECT]
        if 0 < len(direct) < sum(own.score is not None for own in plans.values()):
            names = ", ".join(direct)
            yield Note(
                "bytes",
                f"errors go directly in the scores of {names}, and are added up at once in the others",
            )
        planned = _grouped((own.cost.name, name) for name, own in plans.items())
        if len(planned) > 1:
            each = (f"{', '.join(names)} planned by {cost}" for cost, names in planned.items())
            yield Note("cost", "; ".join(each))
        elif load_strategy(BASELINE).cost not in planned:
            yield Note("cost", f"every row is planned by {next(iter(planned))}")


def _grouped(pairs: Iterable[tuple[str, Any]]) -> dict[str, list[Any]]:
    """Return the values of each key, in order."""
    found: dict[str, list[Any]] = {}
    for key, own in pairs:
        found.setdefault(key, []).append(own)
    return found


class _Swept(_View):
    """Combinations by the axes that vary; the strategy if none does."""

    runs: Sweep
    gain = "how many times faster than the first row of the same batch"

    @property
    def axes(self) -> Sequence[str]:
        return self.runs.varied or ("strategy",)

    def subject(self) -> str:
        return self.runs.model

    def about(self) -> Iterator[str]:
        """Yield the values that all combinations share."""
        for name, value in self.runs[0].axes.items():
            if name not in self.axes:
                yield f"{name} {_text(value)}".rstrip()
        for name, text in self._asked().items():
            yield f"planned by {text}" if name == "cost" else name if text == "True" else f"{name} {text}"

    def _asked(self) -> dict[str, str]:
        """Return the arguments that were given for all runs, as text."""
        given = ((name, self.runs.asked.get(name)) for name in PARAMETERS)
        return {
            name: " ".join(map(str, value)) if isinstance(value, list | tuple) else _text(value)
            for name, value in given
            if value is not None and value is not False and value not in ((), [], "sgd")
        }

    def answer(self) -> tuple[str, Tone]:
        """Name the fastest combination, for each sample where batches differ."""
        fitting = [(run.totals.time_s, run) for run in self.runs if run.totals and run.fits]
        if not fitting:
            return "no combination fits", "bad"
        time, best = min(fitting, key=lambda each: each[0] / each[1].axes["batch"])
        found = ", ".join(f"{name} {text}" for name, text in self.named(best).items())
        sample = " a sample" if "batch" in self.axes else ""
        return f"{found} is fastest{sample}, {format_seconds(time)} a step", ""

    def data(self, run: Run) -> dict[str, Any]:
        texts = {name: _text(run.axes[name]) for name in ("hardware", "array") if name in run.axes}
        common = self._asked() | {"convention": self.runs.convention}
        return {**run.axes, **texts, **common, **_totals(run), "fits": run.fits, "note": run.note}

    def heads(self) -> Iterable[Column]:
        right = {"levels", "array", "batch"}
        return [Column(key=name, unit="count" if name in right else "text") for name in self.axes]

    def named(self, run: Run) -> dict[str, str]:
        return {name: _text(run.axes[name]) for name in self.axes}

    def said(self, run: Run) -> tuple[str | float, Tone]:
        return super().said(run) if run.totals else (NOT_PLANNED, "bad")

    def figure(self, title: str) -> Figure:
        """Plot times along the innermost axis that varies, with a series for each combination of the others."""
        *others, along = self.axes
        places = list(dict.fromkeys(_text(run.axes[along]) for run in self.runs))
        series: dict[str, list[float | None]] = {}
        for run in self.runs:
            values = series.setdefault(", ".join(_value(name, run) for name in others), [None] * len(places))
            values[places.index(_text(run.axes[along]))] = run.totals and run.totals.time_s
        if len(places) == 1 or not all(type(run.axes[along]) in {int, float} for run in self.runs):
            return _picture(title, places, series)
        return _picture(title, list(map(float, places)), series, kind="lines", x_label=along)

    def notes(self) -> Iterator[Note]:
        """Yield each reason for which combinations are not planned once, with the values that they have in common."""
        label = NOT_PLANNED
        for reason, own in _grouped((run.note, run) for run in self.runs if not run.totals).items():
            named = []
            for name in self.axes:
                values = dict.fromkeys(_text(run.axes[name]) for run in own)
                if len(values) < len({_text(run.axes[name]) for run in self.runs}):
                    named.append(f"{name} {', '.join(values)}")
            yield Note(label, ": ".join(filter(None, ["; ".join(named), reason])))
            label = ""


def _text(value: Any) -> str:
    """Format a value on an axis, or of an argument."""
    if isinstance(value, Machine | HeterogeneousMachine | Profile):
        return value.name
    if isinstance(value, tuple):
        return "x".join(map(str, value))
    if isinstance(value, Path):
        return value.stem
    return ", ".join(map(str, value.values())) if isinstance(value, dict) else str(value)


def _value(name: str, run: Run) -> str:
    """Name a value of an axis; a number together with its axis."""
    value = run.axes[name]
    return _text(value) if isinstance(value, str) else f"{name} {_text(value)}"


class _Explored(_View):
    """Points by the words of each free layer, level by level, in the words of one paper for all points."""

    runs: Exploration
    gain = "how many times faster than dp, the time of dp over the point's"
    digits = 4

    def answer(self) -> tuple[str, Tone]:
        best = next((point for point in self.runs if point.fits), None)
        if best is None:
            return f"none of {len(self.runs):,} points fits", "bad"
        verb = "is the plan," if best.own else "is"
        return f"the fastest of {len(self.runs):,} points {verb} {_over(self.runs.baseline, best)}", ""

    def data(self, run: Run) -> dict[str, Any]:
        ways = self.runs.ways
        return {
            **{
                f"{layer} H{level + 1}": own.text(ways[layer, level])
                for (layer, level), own in run.axes.items()
            },
            **_totals(run),
            "convention": self.runs.convention,
            "dp_over_it": self.runs.speedup(run),
            "fits": run.fits,
            "own": run.own,
        }

    def shown(self) -> Iterable[Run]:
        return self.runs[: self.top]

    def heads(self) -> Iterable[Column]:
        layers = _grouped(self.runs.ways)
        return [Column(key=layer, head=f"{layer} {_levels(levels)}") for layer, levels in layers.items()]

    def _words(self, point: Run) -> dict[str, list[str]]:
        """Return the words of each free layer, level by level."""
        words = vocabulary(
            {dim for each in self.runs for choice in each.axes.values() for dim in choice.divided}
        )
        grids = self.runs.plan.in_grids
        return _grouped(
            (place[0], choice_word(choice.degrees, self.runs.ways[place], words, grids=grids))
            for place, choice in point.axes.items()
        )

    def named(self, run: Run) -> dict[str, str]:
        return {layer: " ".join(words) for layer, words in self._words(run).items()}

    def said(self, run: Run) -> tuple[str | float, Tone]:
        said, tone = super().said(run)
        return ", ".join(filter(None, ["the plan" * run.own, str(said)])), tone

    def figure(self, title: str) -> Figure:
        """Plot each point's time, the fastest first, with the names of the fastest and of the plan."""
        few = len(self.runs) <= MOST_BARS

        def named(point: Run) -> str:
            own = self._words(point).items()
            return ", ".join(
                f"{layer} {words[0] if len({*words}) == 1 else ' '.join(words)}" for layer, words in own
            )

        marks = {0: "fastest" if few else f"fastest: {named(self.runs[0])}"}
        for rank, point in enumerate(self.runs):
            if point.own:
                marks[rank] = f"{marks[rank]}; the plan" if rank in marks else f"the plan, number {rank + 1}"
        series: dict[str, list[float | None]] = {"": [run.totals and run.totals.time_s for run in self.runs]}
        if few:
            return _picture(title, list(map(named, self.runs)), series, marks=marks)
        x, label = list(range(len(self.runs))), "plans that are faster"
        return _picture(title, x, series, marks=marks, kind="lines", log=False, x_label=label)

    def notes(self) -> Iterator[Note]:
        own = next((place for place, point in enumerate(self.runs, 1) if point.own), None)
        where = f"the plan of {self.runs.plan.strategy} is " + (
            "not one of them" if own is None else f"number {own}"
        )
        rest = len(self.runs) - self.top
        hidden = f", {rest:,} of them not shown" if rest > 0 else ""
        yield Note("points", f"{len(self.runs):,} points{hidden}; {where}")


def _levels(levels: Sequence[int]) -> str:
    """Name levels, more than two successive ones by the first and the last."""
    if len(levels) > 2 and list(levels) == list(range(levels[0], levels[-1] + 1)):
        return f"H{levels[0] + 1}-H{levels[-1] + 1}"
    return " ".join(f"H{level + 1}" for level in levels)
