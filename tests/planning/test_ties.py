"""A plan does not depend on which exact solver found it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import hypar
from hypar.errors import ProblemError, TableLimitError
from hypar.registry import plugin_names
from hypar.solve.solvers import exhaustive
from hypar.solve.solvers.base import Tables, load_solver
from tests.effort import NETWORKS, TWINS

if TYPE_CHECKING:
    from hypar.plan.plan import Plan

EXACT = [name for name in plugin_names("solvers") if load_solver(name).exact]
FEW = 2**22
"""Entries that the exhaustive solver may compute here."""

SMALLER = ("sfc", "lenet-c", "alexnet")
"""Networks that the quick run searches over several levels at once, as the slow one does larger ones."""

BRANCHED = ("googlenet", "inception", "mobilenet", "resnet", "unet")
CASES = [
    pytest.param(
        *(model, strategy),
        marks=[pytest.mark.slow]
        if model in TWINS or (strategy in {"optimal", "deepa"} and model not in SMALLER)
        else [],
    )
    for model in NETWORKS
    for strategy in plugin_names("strategies")
    if not model.startswith(BRANCHED) or (model == "resnet18" and strategy in {"dp", "mp", "owt"})
]
"""Networks and strategies that two exact solvers take; networks with branches are mostly for elimination alone."""


@pytest.fixture
def short_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the exhaustive solver refuse what it would count out for long."""
    tables = exhaustive.Exhaustive.tables

    def fewer(self: exhaustive.Exhaustive, structure: object) -> Tables | None:
        found = tables(self, structure)  # type: ignore[arg-type]
        return found if found is not None and found.work < FEW else None

    monkeypatch.setattr(exhaustive.Exhaustive, "tables", fewer)


def plans(model: str, strategy: str, levels: int) -> dict[str, Plan]:
    """The plan of every exact solver that takes the model; ``deepa`` has one level of as many devices."""
    network = hypar.load_model(model)
    found = {}
    for solver in EXACT:
        try:
            if strategy == "deepa":
                machine = "p100-4x4" if levels <= 4 else "h100-8x"
                array = [2 ** min(levels, 6)]
                found[solver] = hypar.plan_model(
                    network, array=array, strategy=strategy, solver=solver, hardware=machine
                )
            else:
                found[solver] = hypar.plan_model(network, levels=levels, strategy=strategy, solver=solver)
        except (ProblemError, TableLimitError):
            continue
    return found


def agree(found: dict[str, Plan]) -> bool:
    """Whether all plans have the same choices at the same costs."""
    first, *others = found.values()
    return all(other.splits == first.splits and other.cost == first.cost for other in others)


@pytest.mark.usefixtures("short_count")
@pytest.mark.parametrize(("model", "strategy"), CASES)
def test_every_exact_solver_finds_the_same_plan(model: str, strategy: str) -> None:
    # Level by level the levels above do not know of those below: eight of them hold the plans of one to seven.
    greedy = strategy not in {"optimal", "deepa"}
    for levels in (8,) if greedy else (1, 2, 3, 4):
        found = plans(model, strategy, levels)
        assert ("elimination" in found and len(found) > 1) or levels > 2
        assert agree(found) if found else levels > 2


@pytest.mark.parametrize("strategy", ["hypar", "accpar"])
@pytest.mark.parametrize("model", ["lenet-c", "resnet18"])
def test_a_greedy_plan_holds_the_plans_of_fewer_levels(model: str, strategy: str) -> None:
    deep = hypar.plan_model(model, levels=8, strategy=strategy)
    for levels in range(1, 8):
        assert hypar.plan_model(model, levels=levels, strategy=strategy).splits == deep.splits[:levels]
