"""The joint search from coarse to fine against elimination over all tuples, and five dims against three, under ``paper``."""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hypar import plan_model
from hypar.errors import ProblemError
from hypar.planning.searches import joint
from hypar.planning.searches.base import Question, costs_by_level
from hypar.planning.searches.jointly import coarse
from hypar.planning.searches.jointly.answers import total
from hypar.solve.coarse.merged import merged
from hypar.solve.coarse.states import Spans
from tests.conventions import question_of
from tests.effort import NETWORKS, TWINS, crossed, late
from tests.transformers import encoder, gated, gpt, llama, mixtral, vit

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypar.network.graph import LayerGraph

THREE = "batch,in_channels,out_channels"
SMALL = ("lenet-c", "alexnet", "resnet18", "sfc")
"""Networks of the quick run, of one kind each: chains and residual ones, with convolutions and without."""

KINDS = [name for name in NETWORKS if name not in TWINS]


def planned(model: str, **asked: Any) -> Any:
    """A plan of all levels jointly, as papers count bytes."""
    return plan_model(model, **{"strategy": "optimal", "convention": "paper", **asked})


@pytest.mark.parametrize("levels", [2, 3, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("model", late(KINDS, *(name for name in KINDS if name not in SMALL)))
def test_five_dims_are_three(model: str, levels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By elimination over all tuples, with height and width as they are: they lower no cost, to the byte."""
    reduced = planned(model, levels=levels)
    three = planned(model, levels=levels, space=THREE)
    monkeypatch.setattr(Question, "without_spatial", lambda own: own)
    monkeypatch.setattr(coarse, "COARSE_PAYS", math.inf)
    whole = planned(model, levels=levels)
    assert whole.cost.value == three.cost.value == reduced.cost.value
    assert whole.bounds in (None, [whole.cost.value])


@pytest.mark.parametrize("levels", [3, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("model", late(KINDS, *(name for name in KINDS if name not in SMALL)))
def test_it_equals_elimination_over_all_tuples(model: str, levels: int) -> None:
    found = planned(model, levels=levels, space=THREE, solver="coarse")
    best = planned(model, levels=levels, space=THREE, solver="elimination")
    assert found.solver == "coarse"
    assert found.cost.value == best.cost.value
    assert found.bounds == [found.cost.value]


@pytest.mark.parametrize(
    "asked",
    [
        {"model": "alexnet", "array": [4, 2, 2]},
        {"model": "alexnet", "array": [2, 3]},
        {"model": "resnet18", "array": [2, 2, 2], "pins": ["layer1.0.conv1@H2=height"]},
        {"model": "lenet-c", "levels": 3, "pins": ["conv2=height"]},
        {"model": "lenet-c", "levels": 2, "space": "batch*height batch in_channels"},
        {"model": "alexnet", "levels": 3, "graph": "operators"},
        {"model": "alexnet", "levels": 3, "inter_weight": 0.5},
        {"model": "alexnet", "levels": 3, "space": "height,width linear:mp"},
        {"model": "alexnet", "levels": 3, "cost": "time", "hardware": "hmc"},
        {"model": "lenet-c", "levels": 4, "cost": "accpar", "hardware": "tpu-v3"},
        {"model": "lenet-c", "array": [4, 4], "cost": "deepa", "convention": None, "hardware": "p100-4x4"},
    ],
    ids=str,
)
def test_it_equals_elimination_for_other_arrays_spaces_pins_and_costs(asked: dict[str, Any]) -> None:
    model = asked["model"]
    rest = {name: value for name, value in asked.items() if name != "model"}
    found = planned(model, solver="coarse", **rest)
    best = planned(model, solver="elimination", **rest)
    assert math.isclose(found.cost.value, best.cost.value, rel_tol=1e-12)
    assert found.bounds == [found.cost.value]


@crossed(
    {"make": (gpt, llama, mixtral, encoder, vit, gated), "array": ((2, 2, 2, 2), (2, 2, 3, 3), (4, 2, 2, 2))}
)
def test_plans_cost_what_levels_say_one_by_one_and_no_less_with_dims_of_a_role_as_one(
    make: Callable[[], LayerGraph], array: tuple[int, ...]
) -> None:
    question = question_of(make(), array, "paper", space="all")
    ladder, roles = question.stepped(), question.roles()
    thin = merged(ladder, roles)
    assert thin is not ladder
    assert thin.runs == ladder.runs
    runs = np.repeat(np.arange(len(ladder.runs)), ladder.runs)
    generator = np.random.default_rng(0)
    for _ in range(20):
        orders = np.array([[generator.integers(len(level)) for level in own] for own in question.options])
        choices = tuple(
            tuple(level[option] for level, option in zip(own, order, strict=True))
            for own, order in zip(question.options, orders.tolist(), strict=True)
        )
        cost = Spans(ladder).cost(orders)
        assert math.isclose(cost, total(costs_by_level(question, choices)), rel_tol=1e-12)
        classes = np.array(
            [
                [own[run][option] for run, option in zip(runs, order, strict=True)]
                for own, order in zip(roles, orders, strict=True)
            ]
        )
        assert Spans(thin).cost(classes) <= cost * (1 + 1e-12)


@pytest.mark.parametrize(
    "asked",
    [
        {"make": gpt, "levels": 3, "batch": 1},
        {"make": mixtral, "levels": 3, "batch": 1},
        {"make": llama, "levels": 3, "pins": ["h.0.attention@H1=key_sequence"]},
    ],
    ids=["gpt", "mixtral", "llama"],
)
def test_transformers_have_the_optimum_of_elimination(asked: dict[str, Any]) -> None:
    rest = {name: value for name, value in asked.items() if name not in {"make", "batch"}}
    found, best = (
        planned(asked["make"](asked.get("batch", 4)), solver=solver, **rest)
        for solver in ("coarse", "elimination")
    )
    assert found.cost.value == best.cost.value
    assert found.bounds == [found.cost.value]


@pytest.mark.parametrize("levels", [8, pytest.param(20, marks=pytest.mark.slow)])
def test_a_transformer_has_a_bound_where_all_dims_take_too_long(
    levels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joint, "timed", lambda _: contextlib.nullcontext())
    hasty, better = (planned("gpt2", levels=levels, time_limit=seconds) for seconds in (0.01, 0.3))
    assert hasty.solver == better.solver == "coarse"
    gaps = [1 - plan.bounds[0] / plan.cost.value for plan in (hasty, better)]
    assert 0 < gaps[1] < gaps[0] < 0.1
    assert hasty.bounds[0] <= better.bounds[0]
    assert better.cost.value <= hasty.cost.value


def test_a_cut_of_height_stays_where_the_batch_cannot_take_its_place() -> None:
    space = "height,in_channels,out_channels"
    free = planned("lenet-c", levels=2, space=space)
    assert any("height" in free.dims(layer) for layer in free.layers)
    assert free.cost.value == planned("lenet-c", levels=2, space=space, solver="exhaustive").cost.value


def test_it_refuses_what_sees_the_order_of_levels() -> None:
    for asked in ({"convention": "moved"}, {"search": "greedy"}):
        with pytest.raises(
            ProblemError, match=r"^solver 'coarse': found bytes counted by products over levels"
        ):
            planned("lenet-c", levels=2, solver="coarse", **asked)
