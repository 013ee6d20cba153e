"""AccPar (HPCA 2020): the nine cells between layers, the three inside, and the plans for AlexNet."""

from functools import cache
from pathlib import Path

import pytest

from hypar import load_model, plan_model
from hypar.network.graph import LayerGraph
from hypar.plan.plan import Plan

MODEL = Path(__file__).parent / "alexnet-accpar.yaml"


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
