"""A joint search within limits: it always answers, says what it proved, and is found again by ``hypar check``."""

from __future__ import annotations

import itertools
import json
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from hypar import plan_model
from hypar.activity import INTERRUPTIBLE, LISTENER, holding
from hypar.plan.plan import read_plan
from hypar.planning.searches import named
from hypar.solve import limits
from hypar.studies.check import check_plan
from tests.effort import LONG, late

if TYPE_CHECKING:
    from pathlib import Path

    from hypar.plan.plan import Plan

CASES: dict[str, dict[str, Any]] = {
    "counts": {"model": "resnet18", "levels": 8, "convention": "moved"},
    "bounded": {"model": "alexnet", "levels": 4, "convention": "paper", "solver": "bounded"},
    "elimination": {"model": "alexnet", "levels": 3, "convention": "paper", "solver": "elimination"},
}
"""A plan of each way of the joint search that takes some time."""


def planned(case: str, **asked: Any) -> Plan:
    """The plan of a case."""
    return plan_model(**{"strategy": "optimal", **CASES[case], **asked})


@cache
def optimum_of(case: str) -> float:
    """The cost of the plan of a case, searched without limits."""
    return planned(case).cost.value


class Clock:
    """A clock that goes on by a second each time it is looked at."""

    def __init__(self) -> None:
        self.now = itertools.count()

    def process_time(self) -> float:
        return float(next(self.now))


def require_found_again(plan: Plan, folder: Path) -> None:
    """Check that planning again gives the same file."""
    plan.write(folder / "plan.json")
    assert read_plan(folder / "plan.json") == plan
    verdict = check_plan(folder / "plan.json")
    assert verdict.ok, verdict.changes
    cut = plan.limits is not None and plan.limits.cut is not None
    assert any("priced again" in note for note in verdict.notes) == cut
    if cut:
        other = {**plan.to_data()["cost"], "value": plan.cost.value * (1 + 1e-6)}
        (folder / "plan.json").write_text(json.dumps(plan.to_data() | {"cost": other}))
        assert [change.what for change in check_plan(folder / "plan.json").changes] == ["cost"]


def require_bounds(plan: Plan, optimum: float) -> None:
    """Check that the optimum is between bound and cost."""
    bound = plan.cost.value if plan.bounds is None else plan.bounds[0]
    assert bound <= optimum * (1 + 1e-12)
    assert plan.cost.value >= optimum * (1 - 1e-12)


@pytest.mark.parametrize("case", late(CASES, "counts"))
def test_nothing_of_time_is_recorded_where_no_limit_is_reached(case: str, tmp_path: Path) -> None:
    plan = planned(case)
    assert plan.limits is None
    assert plan == planned(case, time_limit=1000, search_memory=10**10)
    require_found_again(plan, tmp_path)


@pytest.mark.parametrize("case", late(CASES, "bounded"))
def test_the_clock_cuts_a_search_short_and_check_prices_what_it_found(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    optimum = optimum_of(case)
    seen = False
    for seconds in (1, 100) if settings().max_examples < LONG else (1, 20, 50, 100, 200, 400):
        with monkeypatch.context() as patched:
            patched.setattr(limits, "time", Clock())
            plan = planned(case, time_limit=seconds)
        require_bounds(plan, optimum)
        if plan.limits is not None:
            assert (plan.limits.cut, plan.limits.seconds) == ("time", seconds)
            assert f"; joint search cut short after {seconds} s, over" in plan.claim
            seen = True
        require_found_again(plan, tmp_path)
    assert seen


@pytest.mark.parametrize(
    ("asked", "least"),
    [
        ({"cost": "time", "hardware": "tpu-v2", "solver": "counts"}, 0.5),
        ({"solver": "bounded"}, 0.3),
    ],
)
def test_a_search_that_is_cut_short_at_once_has_a_bound_all_the_same(
    asked: dict[str, Any], least: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For time that of the layers' own work; before the first answer that of the levels."""
    monkeypatch.setattr(limits, "time", Clock())
    plan = plan_model("alexnet", levels=4, strategy="optimal", time_limit=1, **asked)
    assert plan.limits is not None
    assert plan.limits.cut == "time"
    assert plan.bounds is not None
    assert least < plan.bounds[0] / plan.cost.value < 1


@pytest.mark.parametrize("case", ["counts"])
def test_an_interrupt_keeps_the_best_plan_where_that_is_asked_for(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    optimum = optimum_of(case)
    monkeypatch.setattr(named, "_tell", interrupted)
    with pytest.raises(KeyboardInterrupt):
        planned(case)
    with holding(INTERRUPTIBLE, True):
        plan = planned(case)
    monkeypatch.undo()
    require_bounds(plan, optimum)
    assert plan.limits is not None
    assert plan.limits.cut == "interrupt"
    assert "; joint search cut short by an interrupt, over" in plan.claim
    require_found_again(plan, tmp_path)


@pytest.mark.parametrize("size", late([10**4, 10**5, 10**6, 3 * 10**6], 10**4, 10**6, 3 * 10**6))
@pytest.mark.parametrize("case", ["counts"])
def test_little_memory_leaves_a_gap_that_check_finds_again(case: str, size: int, tmp_path: Path) -> None:
    plan = planned(case, search_memory=size)
    if plan.limits is None:
        assert plan.bounds == [plan.cost.value]
    else:
        require_bounds(plan, optimum_of(case))
        assert (plan.limits.bytes, plan.limits.cut) == (size, None)
        assert "; joint search within 60 s and " in plan.claim
    require_found_again(plan, tmp_path)


def test_plan_and_bound_are_told_as_they_close() -> None:
    told: list[str] = []
    with holding(LISTENER, told.append):
        planned("counts")
    gaps = [float(text.rpartition("gap ")[2].rstrip("%")) for text in told if "gap" in text]
    assert len(gaps) > 1
    assert gaps == sorted(gaps, reverse=True)
    assert told[1].startswith("best plan ")


@pytest.mark.slow
@pytest.mark.parametrize("hardware", ["h100-8x", "tpu-v3"])
def test_a_large_transformer_is_divided_over_all_devices(hardware: str) -> None:
    asked: dict[str, Any] = {"array": (2,) * 6, "batch": 64, "strategy": "optimal", "cost": "time"}
    plan = plan_model("llama3-8b", hardware=hardware, **asked)
    assert plan.bounds is not None
    assert plan.bounds[0] >= 0.99 * plan.cost.value
    assert plan.baselines is not None
    assert plan.baselines.taken == "search"
