"""The joint search from coarse to fine against elimination over all tuples, and five dims against three, under ``paper``."""

from __future__ import annotations

import math
from typing import Any

import pytest

from hypar import plan_model
from hypar.errors import ProblemError
from hypar.planning.searches.base import Question
from hypar.planning.searches.jointly import coarse
from tests.effort import NETWORKS, TWINS, late

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
