"""AccPar (HPCA 2020): the nine cells between layers, the three inside, and the plans for AlexNet."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hypar import load_model, plan_model
from hypar.ops.families.contract import Linear
from hypar.sharding.amounts.above import received_inside
from hypar.sharding.amounts.factors import Above, Offered, fractions_of
from hypar.sharding.amounts.transfers import Between, Sums
from hypar.sharding.placement import cut, partial_results

if TYPE_CHECKING:
    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan

MODEL = Path(__file__).parent / "alexnet-accpar.yaml"
TYPES = ("batch", "in_channels", "out_channels")
FC = Linear(out_features=100).nest(32, ({"channels": 70},))


@pytest.mark.parametrize("alpha", [1 / 2, 1 / 4])
def test_nine_cells_between_layers(alpha: float) -> None:
    """Parts of A(F) and A(E) that the device with share alpha receives; rows are layer l, columns l + 1."""
    beta = 1 - alpha
    ab = (alpha * beta, alpha * beta)
    cells: list[list[tuple[float, float]]] = [
        [(0, 0), ab, (beta, 0)],
        [(0, beta), (0, beta), (0, 0)],
        [ab, (0, 0), (beta, 0)],
    ]
    between = Between(FC.unsized, FC.unsized, ("channels",), frozenset(), apart=True)
    for row, producer in zip(cells, TYPES, strict=True):
        for cell, consumer in zip(row, TYPES, strict=True):
            made, read = (Offered((cut(dim, 2),), np.array([[alpha, beta]])) for dim in (producer, consumer))
            own = fractions_of(between, made, read, Above())
            assert (
                tuple((have - less)[0, 0, 0] for have, less in ((own.need, own.both), (own.kept, own.back)))
                == cell
            )


@pytest.mark.parametrize("alpha", [1 / 2, 1 / 4])
def test_amounts_inside_a_layer(alpha: float) -> None:
    """Type-I exchanges A(W), Type-II A(F_out), Type-III A(E_in), whatever the shares."""
    assert [partial_results(FC, dim) for dim in TYPES] == [("weight",), ("output",), ("input",)]
    for dim, elements in zip(TYPES, (70 * 100, 32 * 100, 32 * 70), strict=True):
        offered = Offered((cut(dim, 2),), np.array([[alpha, 1 - alpha]]))
        (found,) = received_inside(FC, Sums(True, True, as_read=32 * 100), Above(), offered)
        assert [own.tolist() for own in found.elements] == [[elements]] * 2


@cache
def graph() -> LayerGraph:
    return load_model(MODEL)


@cache
def seven_levels(strategy: str) -> Plan:
    return plan_model(graph(), levels=7, strategy=strategy, convention="paper")


def types(plan: Plan) -> list[str]:
    """For each level the type of each layer, 0 for I, 1 for II, 2 for III."""
    digits = {"batch": "0", "in_channels": "1", "out_channels": "2"}
    return ["".join(digits[split.dim(layer) or ""] for layer in plan.layers) for split in plan.splits]


def test_network_has_the_published_shapes() -> None:
    convs = [layer.shape for layer in graph().layers if layer.op_name == "conv"]
    assert [(shape["channels"], shape["height"]) for shape in convs] == [
        (96, 55), (256, 27), (384, 13), (384, 13), (256, 6),
    ]  # fmt: skip
    assert graph().layers[6].shape == {"channels": 9216}


def test_seven_levels_of_types_one_and_two() -> None:
    assert types(seven_levels("hypar")) == [
        "00000111", "00000111", "00000111", "00000100", "00000111", "00001000", "00011111",
    ]  # fmt: skip


def test_seven_levels_of_three_types() -> None:
    assert types(seven_levels("accpar")) == [
        "00000121", "00000211", "00000121", "00000212", "00000121", "00021212", "00001121",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("strategy", "elements"),
    [("dp", 62_367_776), ("owt", 12_908_576), ("hypar", 12_908_576), ("accpar", 10_811_424)],
)
def test_level_0_elements_one_way(strategy: str, elements: int) -> None:
    """What one of the two devices receives."""
    assert seven_levels(strategy).splits[0].cost == elements * 2 * 4


@pytest.mark.parametrize(("strategy", "ratio"), [("owt", 7.171), ("hypar", 10.639), ("accpar", 14.075)])
def test_dp_over_each_summed_over_levels(strategy: str, ratio: float) -> None:
    assert round(seven_levels("dp").cost.value / seven_levels(strategy).cost.value, 3) == ratio


@pytest.mark.usefixtures("more_solvers")
def test_level_0_is_the_optimum_by_counting_out_3_to_the_8() -> None:
    counted = plan_model(graph(), levels=1, strategy="accpar", solver="exhaustive", convention="paper")
    assert counted.splits[0].cost == seven_levels("accpar").splits[0].cost


@pytest.mark.parametrize(
    ("name", "excess"),
    [("lenet-c", 0.056), ("alexnet", 0.029), ("vgg-a", 0.012), ("vgg-c", 0.011), ("vgg-e", 0.006)],
)
def test_greedy_over_joint_search_of_three_types_at_four_levels(name: str, excess: float) -> None:
    """By how much greedy costs more than joint: nothing for types I and II."""
    two, three = (
        {
            search: plan_model(name, strategy=strategy, search=search, convention="paper").cost.value
            for search in ("greedy", "joint")
        }
        for strategy in ("hypar", "accpar")
    )
    assert two["joint"] == two["greedy"]
    assert round(three["greedy"] / three["joint"] - 1, 3) == excess
