"""Pages that are one table each, whose rows are computed one by one.

``docs/optima.md`` has the least bytes of every network, and how far above them the greedy plan is; ``docs/unproven.md`` the plans
of every network at every number of levels that are not proven. ``pytest tests/benchmarks/test_pages.py -m slow`` compares
them, and with ``-n 0 --update-golden`` writes them. Plans are searched with as much counted work as takes some seconds,
whatever the clock says, so that the pages are the same on every machine.
"""

import contextlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hypar import plan_model
from hypar.network.graph import LayerGraph, load_model
from hypar.plan.plan import Plan
from hypar.planning import question
from hypar.registry import plugin_names
from hypar.sharding.conventions import BY_LEVELS
from tests.effort import NETWORKS, TRANSFORMERS, crossed

DOCS = Path(__file__).parents[2] / "docs"


class Rows(NamedTuple):
    """A page.

    Attributes:
        name: the name of its file.
        head: the text down to the table's second line.
        starts: what each row that it may have starts with, in their order.
    """

    name: str
    head: str
    starts: tuple[str, ...]

    @property
    def path(self) -> Path:
        return DOCS / self.name

    @property
    def found(self) -> dict[str, str]:
        lines = self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []
        return {start: line for start in self.starts for line in lines if line.startswith(start)}

    def text(self, rows: dict[str, str]) -> str:
        """Return the page with some rows; those that are empty are left out."""
        return self.head + "".join(f"{rows[start]}\n" for start in self.starts if rows.get(start))

    def compare(self, start: str, row: str, *, update: bool) -> None:
        """Check a row, which is empty if the page has none, or write it."""
        if update:
            self.path.write_text(self.text(self.found | {start: row}), encoding="utf-8")
        assert self.found.get(start, "") == row


@pytest.fixture(autouse=True)
def _no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(question, "timed", lambda _: contextlib.nullcontext())


LONG = [pytest.mark.slow, pytest.mark.long]
DEPTHS = (4, 8, 12, 16, 20)
LEVELS, PROVEN = range(1, 21), range(1, 11)
MODELS = sorted((*NETWORKS, *TRANSFORMERS))
SECONDS = {"moved": 1, "fused": 1, "paper": 10}
"""The work of each search; under ``moved`` and ``fused`` searches by counts end by themselves and count none."""

OPTIMA = f"""# Optima

The least gigabytes of a training step over all devices, by `moved`, of every network that comes with hypar, at its own mini-batch: the plan of
`--strategy optimal` over all dims. Behind each, how far above it the plan of the same space and count is that is searched
level by level, as [HyPar](strategies/hypar.md) does. ≤ stands before a plan that is not proven, and behind it the gap,
by which the optimum may be lower at most; networks on images are [proven](unproven.md) but for a few as long as the batch lasts, and from then on
height and width are cut, whose halos the bound does not have.

Written by `pytest tests/benchmarks/test_pages.py -m slow -n 0 --update-golden`.

| network |{"".join(f" {levels} levels |" for levels in DEPTHS)}
|---|{"---|" * len(DEPTHS)}
"""
UNPROVEN = f"""# Not proven

Every network that comes with hypar has a plan at 1 to 20 two-way levels by every strategy and convention. Up to {PROVEN[-1]}, which are {2 ** PROVEN[-1]:,} devices, `--strategy optimal`
proves [most of these plans](optimal.md). The others are below, each with the percentage by which the optimum may be lower at most; a network or a number
of levels without an entry is proven.

The searches under `paper` had `--time-limit {SECONDS["paper"]}`, counted as work and not by the clock: more time closes some of them. Those under `moved` and `fused` are
searched to their end; once the batch is used up, networks on images cut height and width, whose halos the bound does not have. [Optima](optima.md) has the gaps at up to twenty levels.

Written by `pytest tests/benchmarks/test_pages.py -m slow -n 0 --update-golden`.

| network | convention | levels: gap |
|---|---|---|
"""

BEST = {model: f"| {model} |" for model in (*NETWORKS, *TRANSFORMERS)}
OPEN = {(model, convention): f"| {model} | {convention} |" for convention in BY_LEVELS for model in MODELS}
PAGES = [
    Rows("optima.md", OPTIMA, tuple(BEST.values())),
    Rows("unproven.md", UNPROVEN, tuple(OPEN.values())),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_is_its_head_and_its_rows(page: Rows) -> None:
    """Of the optima it has every network."""
    assert page.path.read_text(encoding="utf-8") == page.text(page.found)
    assert page is not PAGES[0] or len(page.found) == len(BEST)


def test_the_page_on_theorems_names_the_largest_distances() -> None:
    rows = [re.findall(r"\+([\d.]+%)", line) for line in PAGES[0].found.values()]
    most = [max(column, key=lambda own: float(own[:-1])) for column in zip(*rows, strict=True)]
    named = [f"{share} at {levels}" for share, levels in zip(most, DEPTHS, strict=True)]
    named[0] += " levels"
    assert f"above the optimum by {', '.join(named)}." in (DOCS / "optimal.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("model", [pytest.param(model, marks=LONG) for model in BEST])
def test_the_page_has_the_optima(model: str, update_golden: bool) -> None:
    """The optimum, how far above it the greedy plan is, and the gap if the optimum is not proven."""
    graph, cells = load_model(model), []
    for levels in DEPTHS:
        best, greedy = (
            plan_model(graph, levels=levels, strategy="optimal", search=search)
            for search in ("joint", "greedy")
        )
        gap, least = gap_of(best), best.cost.value
        open_by = f", gap {gap:.2%}" if gap > 0 else ""
        cells.append(
            f"{'≤ ' if open_by else ''}{least / 1e9:.3f}, +{greedy.cost.value / least - 1:.2%}{open_by}"
        )
    PAGES[0].compare(BEST[model], f"{BEST[model]} {' | '.join(cells)} |", update=update_golden)


def planned(model: LayerGraph, levels: int, strategy: str, convention: str) -> Plan:
    """A plan of least volume."""
    asked: dict[str, Any] = {"strategy": strategy, "convention": convention, "cost": "volume"}
    return plan_model(model, levels=levels, time_limit=SECONDS[convention], **asked)


def require_whole(plan: Plan, levels: int) -> None:
    """Check that a plan has a choice for every layer at every level, and a bound that is none above its cost."""
    assert len(plan.splits) == levels
    assert all(len(plan.choices(layer)) == levels for layer in plan.layers)
    assert all(bound <= plan.cost.value for bound in plan.bounds or [] if len(plan.bounds or []) == 1)


def gap_of(plan: Plan) -> float:
    return 0.0 if plan.bounds is None else 1 - plan.bounds[0] / plan.cost.value


@crossed(
    {
        "model,each": [
            ("lenet-c", (1, 9, 20)),
            *(pytest.param(model, LEVELS, marks=LONG) for model in MODELS),
        ],
        "strategy": [name for name in plugin_names("strategies") if name != "optimal"],
        "convention": BY_LEVELS,
    }
)
def test_a_network_has_a_plan(model: str, each: Sequence[int], strategy: str, convention: str) -> None:
    graph = load_model(model)
    for levels in each:
        require_whole(planned(graph, levels, strategy, convention), levels)


def row(start: str, gaps: dict[int, float]) -> str:
    """The row of a network, with the gap at each number of levels that is not proven; empty if all are."""
    found = [f"{levels}: {_percent(gap)}" for levels, gap in gaps.items() if gap]
    return f"{start} {', '.join(found)} |" if found else ""


def _percent(gap: float) -> str:
    return f"{gap:.2%}" if gap >= 5e-5 else "below 0.01%"


@pytest.mark.parametrize(("model", "convention"), [pytest.param(*case, marks=LONG) for case in OPEN])
def test_the_page_lists_what_is_not_proven(model: str, convention: str, update_golden: bool) -> None:
    graph, gaps = load_model(model), {}
    for levels in PROVEN:
        plan = planned(graph, levels, "optimal", convention)
        require_whole(plan, levels)
        gaps[levels] = gap_of(plan)
        assert gaps[levels] < 1
    start = OPEN[model, convention]
    PAGES[1].compare(start, row(start, gaps), update=update_golden)
