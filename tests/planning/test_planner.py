from __future__ import annotations

import gc
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar import load_machine, load_model, plan_model
from hypar.files.yaml_file import parse_yaml
from hypar.network.graph import build_graph
from hypar.sharding.placement import WHOLE, Choice, cut
from hypar.sharding.space import parse_space
from hypar.studies.remarks import remarks
from tests import oracle
from tests.effort import NETWORKS, TWINS, crossed, examples, late
from tests.planning.parts import scored

if TYPE_CHECKING:
    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan


RESIDUAL = """
source: a residual block, a branch that is joined by channels, and a global pool
batch: 8
layers:
  - {op: input, channels: 2, height: 6, width: 6}
  - {name: stem, op: conv, out_channels: 4, kernel: 3, padding: 1}
  - {name: left, op: conv, out_channels: 4, kernel: 3, padding: 1, inputs: stem}
  - {name: sum, op: add, inputs: [stem, left]}
  - {name: right, op: conv, out_channels: 2, kernel: 1, inputs: sum}
  - {name: both, op: concat, inputs: [sum, right]}
  - {name: gap, op: pool, mode: average, window: global}
  - {op: flatten}
  - {name: fc, op: linear, out_features: 3}
"""

SKIP = """
source: a skip around one convolution
batch: 4
layers:
  - {op: input, channels: 2, height: 8, width: 4}
  - {name: stem, op: conv, out_channels: 4, kernel: 3, padding: 1, stride: [2, 1]}
  - {name: side, op: conv, out_channels: 4, kernel: [5, 3], padding: [2, 1]}
  - {name: sum, op: add, inputs: [stem, side]}
  - {op: flatten}
  - {name: fc, op: linear, out_features: 6}
"""


@cache
def graph(name: str) -> LayerGraph:
    return load_model(name)


@cache
def residual() -> LayerGraph:
    return build_graph(parse_yaml(RESIDUAL, Path("residual.yaml")), "residual")


def chosen(plan: Plan) -> list[list[Choice]]:
    """A plan's choices as the oracle takes them."""
    return [[WHOLE if dim is None else cut(dim, 2) for dim in plan.dims(layer)] for layer in plan.layers]


@crossed(
    {
        "strategy": ["dp", "mp", "owt", "accpar", "hypar"],
        "name": late(NETWORKS, "inception-v3", "mobilenet-v2", "resnet50", *TWINS),
    }
)
def test_every_strategy_states_the_volume_of_its_plan_at_every_depth(name: str, strategy: str) -> None:
    plan = plan_model(graph(name), levels=6, strategy=strategy, convention="paper")
    costs = accumulate(sum(split.costs.values()) for split in plan.splits)
    assert [*costs] == [*accumulate(oracle.volumes(graph(name), chosen(plan)))]


@pytest.mark.parametrize(
    ("text", "space", "levels"),
    [(RESIDUAL, "batch,in_channels,out_channels", 1), (SKIP, "batch,in_channels", 2), (SKIP, "all", 1)],
)
def test_joint_search_of_a_branching_network_equals_counting_everything_out(
    text: str, space: str, levels: int
) -> None:
    network = build_graph(parse_yaml(text, Path("a.yaml")), "a")
    options = [parse_space(space).choices(layer, 2) for layer in network.contracted.layers]
    plan = plan_model(network, levels=levels, space=space, search="joint")
    assert plan.cost.value == oracle.best_volume(network, options, levels)


@settings(max_examples=examples(60))
@given(data=st.data(), levels=st.integers(1, 3))
def test_the_cost_of_any_choices_is_their_volume(data: st.DataObject, levels: int) -> None:
    """Every choice pinned at random, halo, joins and a global pool included."""
    pins = []
    for layer in residual().contracted.layers:
        options = parse_space("all").choices(layer, 2)
        for level in range(levels):
            dim = next(iter(data.draw(st.sampled_from(options)).divided), None)
            pins.append(f"{layer.name}@{level}={dim or 'rep'}")
    plan = plan_model(residual(), levels=levels, space="all", pins=pins)
    assert plan.cost.value == pytest.approx(float(oracle.volume(residual(), chosen(plan))), rel=1e-12)
    assert plan.cost.value == pytest.approx(sum(sum(split.costs.values()) for split in plan.splits))


def test_a_plan_leaves_the_search_for_garbage_as_it_was() -> None:
    before = gc.get_threshold()
    plan_model("lenet-c", levels=1)
    assert gc.get_threshold() == before


def test_four_way_levels_receive_three_quarters() -> None:
    """dp over one 4-way level: each device receives 2 * 3/4 of every weight."""
    plan = plan_model(graph("lenet-c"), array=[4], strategy="dp")
    weights = sum(layer.nest.elements("weight") for layer in graph("lenet-c").contracted.layers)
    assert plan.cost.value == 4 * 2 * 0.75 * weights * 4
    assert plan.splits[0].shares == [0.25] * 4


@pytest.mark.parametrize(
    ("asked", "claim"),
    [
        ({"strategy": "dp"}, "fixed: the only plan over (batch)"),
        (
            {"strategy": "hypar", "pins": ["*=mp"]},
            "fixed: the only plan over (batch,in_channels) and 1 pin",
        ),
        (
            {"strategy": "hypar"},
            "greedy: each level is optimal given the levels above it, over (batch,in_channels)",
        ),
        ({"strategy": "optimal", "levels": 1}, "optimal, all levels jointly, over (all), one dim a level"),
        ({"strategy": "hypar", "pins": ["fc1=dp"]}, "over (batch,in_channels) and 1 pin, one dim a level"),
    ],
)
def test_a_plan_says_what_it_is_optimal_over(asked: dict[str, object], claim: str) -> None:
    assert claim in plan_model(graph("lenet-c"), **asked).claim  # type: ignore[arg-type]


def test_a_plan_is_only_fixed_where_its_joins_are_too() -> None:
    """Cut in one dim everywhere, a residual network still has its joins to search over."""
    greedy, joint = (
        plan_model(graph("resnet18"), levels=3, space="out_channels", search=search)
        for search in ("greedy", "joint")
    )
    assert greedy.cost.value > joint.cost.value
    assert greedy.claim.startswith("greedy: ")


def test_a_pool_that_reaches_over_the_image_contracts_it_as_a_global_one() -> None:
    text = RESIDUAL.replace("mode: average, window: global", "mode: average, kernel: 6")
    pooled = build_graph(parse_yaml(text, Path("a.yaml")), "a")
    asked = {"levels": 1, "space": "all", "pins": ["both=h", "fc=batch"]}
    assert plan_model(pooled, **asked).cost.value == plan_model(residual(), **asked).cost.value  # type: ignore[arg-type]


def said(plan: Plan) -> list[str]:
    return [own.text for own in remarks(plan)]


class TestRemarks:
    def test_an_optimum_that_is_not_cheap_to_know(self) -> None:
        plan = plan_model(graph("resnet152"), levels=8, strategy="accpar")
        assert any("expensive to compute" in text for text in said(plan))

    def test_layers_cut_finer_than_they_have_elements(self) -> None:
        plan = plan_model(graph("lenet-c"), levels=9, strategy="owt")
        assert any(text.endswith("conv1 batch, conv2 batch, fc2 in_channels") for text in said(plan))


@pytest.mark.parametrize(("levels", "search", "count"), [(3, "greedy", 3), (2, "joint", 1)])
def test_a_bounded_plan_states_its_bounds_and_its_gap(levels: int, search: str, count: int) -> None:
    asked = {"levels": levels, "search": search, "strategy": "accpar"}
    plan = plan_model(graph("resnet18"), solver="bounded", **asked)  # type: ignore[arg-type]
    exact = plan_model(graph("resnet18"), **asked)  # type: ignore[arg-type]
    assert plan.bounds is not None
    assert exact.bounds is None
    assert len(plan.bounds) == count
    costs = [split.cost for split in plan.splits] if count > 1 else [plan.cost.value]
    assert all(bound <= cost for bound, cost in zip(plan.bounds, costs, strict=True))
    # Elimination fits here, so the bound is the optimum, and the claim is that of an exact solver.
    assert sum(plan.bounds) == exact.cost.value
    assert plan.claim == exact.claim


@pytest.mark.parametrize(("search", "count"), [("greedy", None), ("joint", 1)])
def test_a_refined_plan_states_no_bound_that_its_own_choices_can_go_below(
    search: str, count: int | None
) -> None:
    """A level's bound is given the choices above it; those of alexnet's outer levels are exchanged here."""
    machine = load_machine("h100-8x", {"overlap": "full"})
    asked: dict[str, Any] = {"levels": 3, "strategy": "hypar", "cost": "time", "hardware": machine}
    asked |= {"solver": "bounded", "search": search}
    plan = plan_model(graph("alexnet"), refine=True, **asked)
    assert plan.refined is not None
    assert plan.refined.after_s == scored(plan).time_s <= plan.refined.before_s
    assert (plan.bounds and len(plan.bounds)) == count
    if plan.bounds is None:
        assert plan.refined.changed
        assert plan.claim.startswith("greedy: each level is optimal given the levels above it, over ")
    else:
        assert plan.bounds[0] <= plan.cost.value
        assert plan.claim.startswith("optimal, all levels jointly, over ")
    assert plan.claim.endswith("then refined")
    assert plan_model(graph("alexnet"), **asked).bounds is not None


def test_level_by_level_devices_are_left_idle_at_the_innermost_level_alone() -> None:
    """Computation is weighed there; a level above it would see transfers alone, and leave all but one idle."""
    asked = {"array": [4, 4], "strategy": "deepa", "hardware": "p100-4x4"}
    greedy = plan_model(graph("alexnet"), **asked)  # type: ignore[arg-type]
    joint = plan_model(graph("alexnet"), search="joint", **asked)  # type: ignore[arg-type]
    assert all(greedy.choices(layer)[0].devices(4) == 4 for layer in greedy.layers)
    assert joint.cost.value <= greedy.cost.value <= 1.2 * joint.cost.value
    alone = plan_model(graph("alexnet"), pins="*=n1", search="joint", **asked)  # type: ignore[arg-type]
    assert greedy.cost.value < alone.cost.value / 2
