"""Every network at every number of levels, by every strategy and convention, has a plan; and those that are not proven.

``pytest tests/benchmarks/test_unproven.py -m slow`` compares ``docs/unproven.md`` row by row, and with ``-n 0 --update-golden`` writes
it. Plans are searched with as much counted work as takes some seconds, whatever the clock says, so that the page
is the same on every machine.
"""

import contextlib
from typing import Any

import pytest

from hypar import plan_model
from hypar.network.graph import LayerGraph, load_model
from hypar.plan.plan import Plan
from hypar.planning.searches import joint
from hypar.registry import plugin_names
from hypar.sharding.conventions import BY_LEVELS
from tests.benchmarks.rows import Rows
from tests.effort import NETWORKS, TRANSFORMERS, crossed

LEVELS = range(1, 21)
MODELS = sorted((*NETWORKS, *TRANSFORMERS))
SECONDS = {"moved": 1, "fused": 1, "paper": 10}
"""The work of each search; under ``moved`` and ``fused`` searches by counts end by themselves and count none."""

HEAD = f"""# Not proven

Every network that comes with hypar has a plan at 1 to 20 two-way levels by every strategy and convention. `--strategy optimal` proves
[most of these plans](optimal.md). The others are below, each with the percentage by which the optimum may be lower at most; a network or a number
of levels without an entry is proven.

The searches under `paper` had `--time-limit {SECONDS["paper"]}`, counted as work and not by the clock: more time closes some of them. Those under `moved` and `fused` are
searched to their end.

Written by `pytest tests/benchmarks/test_unproven.py -m slow -n 0 --update-golden`.

| network | convention | levels: gap |
|---|---|---|
"""

CASES = {(model, convention): f"| {model} | {convention} |" for convention in BY_LEVELS for model in MODELS}
PAGE = Rows("unproven.md", HEAD, tuple(CASES.values()))


@pytest.fixture(autouse=True)
def _no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joint, "timed", lambda _: contextlib.nullcontext())


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


@crossed({"levels": [1, 9, 20], "strategy": plugin_names("strategies"), "convention": BY_LEVELS})
def test_a_network_has_a_plan(levels: int, strategy: str, convention: str) -> None:
    require_whole(planned(load_model("lenet-c"), levels, strategy, convention), levels)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("convention", BY_LEVELS)
@pytest.mark.parametrize("strategy", [name for name in plugin_names("strategies") if name != "optimal"])
@pytest.mark.parametrize("model", MODELS)
def test_every_network_has_a_plan(model: str, strategy: str, convention: str) -> None:
    graph = load_model(model)
    for levels in LEVELS:
        require_whole(planned(graph, levels, strategy, convention), levels)


def row(start: str, gaps: dict[int, float]) -> str:
    """The row of a network, with the gap at each number of levels that is not proven; empty if all are."""
    found = [f"{levels}: {_percent(gap)}" for levels, gap in gaps.items() if gap]
    return f"{start} {', '.join(found)} |" if found else ""


def _percent(gap: float) -> str:
    return f"{gap:.2%}" if gap >= 5e-5 else "below 0.01%"


def test_the_page_has_one_row_for_each_network_that_is_not_proven() -> None:
    assert PAGE.path.read_text(encoding="utf-8") == PAGE.text(PAGE.found)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(("model", "convention"), CASES)
def test_the_page_lists_what_is_not_proven(model: str, convention: str, update_golden: bool) -> None:
    graph, gaps = load_model(model), {}
    for levels in LEVELS:
        plan = planned(graph, levels, "optimal", convention)
        require_whole(plan, levels)
        gaps[levels] = gap_of(plan)
        assert gaps[levels] < 1
    start = CASES[model, convention]
    PAGE.compare(start, row(start, gaps), update=update_golden)
