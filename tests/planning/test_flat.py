"""The joint search over one flat level whose devices each layer numbers in an order of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hypar import check_plan, load_model, plan_model, score_plan, verify_plan
from tests.effort import crossed

if TYPE_CHECKING:
    from pathlib import Path

    from hypar.plan.plan import Plan


def flat(model: Any, ways: int, **asked: Any) -> Plan:
    return plan_model(model, array=[ways], strategy="optimal", **asked)


@crossed({"model,levels": [("alexnet", 4), ("vgg16", 8), ("resnet18", 3)], "convention": ["moved", "fused"]})
def test_a_flat_level_costs_what_its_digits_cost_as_levels(model: str, levels: int, convention: str) -> None:
    one = flat(model, 2**levels, convention=convention)
    several = plan_model(model, levels=levels, strategy="optimal", convention=convention)
    assert one.cost.value == several.cost.value
    assert one.claim.startswith("optimal, all levels jointly, over (all), grids of dims, numbered freely")
    assert one.array == [2**levels]


def test_no_numbering_through_is_cheaper() -> None:
    through = flat("alexnet", 16, pins="conv1=batch16")
    assert "numbered freely" not in through.claim
    assert through.splits[0].numbering is None
    # As docs/optimal.md says: 5 % dearer.
    assert through.cost.value / flat("alexnet", 16).cost.value == pytest.approx(1.0522, abs=1e-4)


def test_another_numbering_costs_more_and_drifts(tmp_path: Path) -> None:
    plan = flat("alexnet", 16)
    turned = plan.to_data()
    digits = turned["splits"][0]["numbering"]
    digits["fc2"] = digits["fc2"][::-1]
    file = tmp_path / "plan.json"
    type(plan).model_validate(turned).write(file)
    verdict = check_plan(file)
    assert [(change.layer, change.what) for change in verdict.changes] == [("fc2", "choice")]
    assert score_plan(file, hardware="hmc").communication_bytes > plan.cost.value


@pytest.mark.parametrize(
    ("model", "ways"), [pytest.param("sconv", 64, marks=pytest.mark.slow), ("cifar-c", 256)]
)
def test_where_the_batch_is_exhausted_height_and_width_are_cut_and_the_gap_is_stated(
    model: str, ways: int
) -> None:
    plan = flat(model, ways, batch=2)
    assert {"height", "width"} & {dim for layer in plan.layers for dim in plan.choices(layer)[0].divided}
    layers = {layer.name: layer.nest.sizes for layer in load_model(model).with_batch(2).contracted.layers}
    for name, sizes in layers.items():
        assert all(degree <= sizes[dim] for dim, degree in plan.choices(name)[0].degrees)
    bound = plan.cost.value if plan.bounds is None else plan.bounds[0]
    assert 0.9 * plan.cost.value < bound <= plan.cost.value
    assert ("at most" in plan.claim) == (bound < plan.cost.value)
    assert verify_plan(plan, shrink=True).ok


def test_all_divisors_are_counted() -> None:
    plan = flat("alexnet", 12, space="all divisors")
    through = flat("alexnet", 12, space="all divisors", pins="conv1=batch12")
    assert plan.claim.startswith("optimal,")
    assert plan.cost.value < through.cost.value
    degrees = {degree for layer in plan.layers for _, degree in plan.choices(layer)[0].degrees}
    assert any(degree % 3 == 0 for degree in degrees)


@pytest.mark.parametrize("held", [{"pins": "fc1=out_channels"}, {"refine": True, "hardware": "hmc"}])
def test_plans_whose_grids_are_held_say_that_their_devices_are_numbered_through(held: dict[str, Any]) -> None:
    plan = plan_model("lenet-c", array=(4,), strategy="optimal", **held)
    assert ", grids of dims, numbered through, for least volume" in plan.claim
    assert plan.splits[0].numbering is None
    assert "numbered freely" in flat("lenet-c", 4).claim
    for asked in ({"cost": "time", "hardware": "hmc"}, {"convention": "paper"}):
        assert flat("lenet-c", 4, **asked).splits[0].numbering is None
