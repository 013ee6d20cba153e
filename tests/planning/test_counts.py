"""The joint search by counts against the search over all tuples of choices, on networks."""

from __future__ import annotations

import math
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar import load_model, plan_model, verify_plan
from hypar.errors import ProblemError
from hypar.planning.searches.jointly import counts
from tests.effort import NETWORKS, TWINS, crossed, examples, late

if TYPE_CHECKING:
    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan

TWO, THREE = "batch,in_channels", "batch,in_channels,out_channels"


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Search by counts however few tuples there are."""
    monkeypatch.setattr(counts, "COUNTING_PAYS", 0)


def both(model: str | LayerGraph, **asked: Any) -> tuple[Plan, Plan]:
    """The plan by counts and the plan over all tuples."""
    found = plan_model(model, strategy="optimal", **asked)
    return found, plan_model(model, strategy="optimal", solver="elimination", **asked)


def require_equal(found: Plan, proven: Plan) -> None:
    """Check that a plan by counts is proven and costs what another one costs."""
    assert found.solver == "counts"
    assert found.bounds == [found.cost.value]
    assert found.claim.startswith("optimal, all levels jointly,")
    assert found.cost.value == pytest.approx(proven.cost.value, rel=1e-12)


QUICK = [
    ("alexnet", 3, THREE),
    ("vgg16", 3, "all"),
    ("resnet18", 3, THREE),
    ("alexnet-2012", 3, TWO),
    ("unet", 3, THREE),
]
LONG = [
    (model, levels, space)
    for model in NETWORKS
    for levels, space in ((3, TWO), (2, "all"), (3, THREE), (4, THREE), (3, "all"), (5, TWO), (5, THREE))
    if (levels, space) not in {(3, TWO), (2, "all")} or model in {"googlenet", "inception-v3"}
    if not (levels == 5 and space == THREE and model not in {"vgg16", "resnet18", "alexnet", "lenet-c"})
    if model not in TWINS and (model, levels, space) not in QUICK
]


@crossed(
    {
        "model,levels,space": [*QUICK, *[pytest.param(*one, marks=pytest.mark.slow) for one in LONG]],
        "convention": ["moved", "fused"],
    }
)
def test_it_equals_elimination_over_all_tuples(model: str, levels: int, space: str, convention: str) -> None:
    require_equal(*both(model, levels=levels, space=space, convention=convention))


@crossed(
    {
        "asked": [
            {"array": (3, 2, 2)},
            {"array": (4, 2, 3), "space": THREE},
            {"levels": 3, "pins": "fc1=in_channels"},
            {"levels": 3, "pins": ("conv2@H2=out_channels", "fc2@H1=batch")},
            {"levels": 3, "graph": "operators"},
            {
                "levels": 3,
                "inter_weight": 1.0,
                "space": "conv:batch,out_channels linear:in_channels,out_channels",
            },
        ],
        "convention": ["moved", "fused"],
    }
)
def test_it_equals_elimination_for_other_arrays_spaces_and_pins(
    asked: dict[str, Any], convention: str
) -> None:
    require_equal(*both("alexnet", convention=convention, **asked))


def test_a_byte_between_layers_may_weigh_less_under_moved() -> None:
    require_equal(*both("alexnet", levels=3, inter_weight=0.5, convention="moved"))


@st.composite
def networks(draw: st.DrawFn) -> dict[str, Any]:
    """Chains, residual blocks and inception-like blocks of small convolutions, with linear layers behind."""
    layers: list[dict[str, Any]] = [
        {"op": "input", "channels": draw(st.sampled_from((1, 2, 8))), "height": 4, "width": 4}
    ]
    wide = st.sampled_from((1, 2, 8, 64))

    def conv(before: str | None, channels: int | None = None) -> str:
        kernel = draw(st.sampled_from((1, 3)))
        own = {"name": f"n{len(layers)}", "op": "conv", "kernel": kernel, "padding": kernel // 2}
        more = {} if before is None else {"inputs": [before]}
        layers.append(own | {"out_channels": channels or draw(wide)} | more)
        return f"n{len(layers) - 1}"

    def branch(before: str, channels: int | None = None) -> str:
        for _ in range(draw(st.integers(0, 1))):
            before = conv(before)
        return conv(before, channels)

    last = conv(None)
    for _ in range(draw(st.integers(0, 2))):
        join, width = draw(st.sampled_from(("add", "concat", ""))), draw(wide)
        ends = [branch(last, width if join == "add" else None) for _ in range(2 if join else 1)]
        if join:
            layers.append({"name": f"n{len(layers)}", "op": join, "inputs": ends})
        last = f"n{len(layers) - 1}"
    layers.append({"op": "flatten"})
    layers += [{"op": "linear", "out_features": draw(wide)} for _ in range(draw(st.integers(1, 2)))]
    return {"source": "by hand", "batch": draw(st.sampled_from((2, 8))), "layers": layers}


drawn = given(
    model=networks(),
    array=st.sampled_from(((2, 2), (2, 2, 2), (3, 2), (2, 4, 2))),
    space=st.sampled_from((TWO, THREE, "batch,height,out_channels,in_channels")),
    convention=st.sampled_from(("moved", "fused")),
)
"""A random network with a request."""


@settings(max_examples=examples(400, short=10))
@drawn
def test_it_equals_elimination_on_random_networks(
    model: dict[str, Any], array: tuple[int, ...], space: str, convention: str
) -> None:
    graph = load_model(model, name="random")
    require_equal(*both(graph, array=array, space=space, convention=convention))


@pytest.mark.slow
@pytest.mark.long
def test_it_equals_elimination_on_two_thousand_random_networks() -> None:
    seen: Counter[tuple[str, int]] = Counter()

    @settings(max_examples=2000)
    @drawn
    def equal(model: dict[str, Any], array: tuple[int, ...], space: str, convention: str) -> None:
        graph = load_model(model, name="random")
        require_equal(*both(graph, array=array, space=space, convention=convention))
        seen[convention, len(array)] += 1

    equal()
    lines = [f"{number} by {convention} at {levels} levels" for (convention, levels), number in seen.items()]
    sys.stdout.write(f"{seen.total()} random networks equal elimination: {', '.join(lines)}\n")
    assert seen.total() >= 2000


def small(join: str) -> dict[str, Any]:
    """A network of which every dim can be cut at five levels: a chain, or one with a block of two branches."""
    conv = {"op": "conv", "kernel": 1, "out_channels": 32, "bias": False}
    branch = [{"name": "left", **conv, "inputs": ["stem"]}, {"name": "right", **conv, "inputs": ["stem"]}]
    layers: list[dict[str, Any]] = [
        {"op": "input", "channels": 32, "height": 2, "width": 2},
        {"name": "stem", **conv},
        *([*branch, {"name": "both", "op": join, "inputs": ["left", "right"]}] if join else [{**conv}]),
        {"op": "flatten"},
        {"op": "linear", "out_features": 32, "bias": False},
    ]
    return {"source": "by hand", "batch": 32, "layers": layers}


@pytest.mark.parametrize("convention", ["moved", "fused"])
@pytest.mark.parametrize("levels", late([3, 4, 5], 4, 5))
@pytest.mark.parametrize("join", late(["", "add", "concat"], "", "concat"))
def test_a_run_moves_the_bytes_of_the_optimum(join: str, levels: int, convention: str) -> None:
    graph = load_model(small(join), name="small")
    plan = plan_model(graph, levels=levels, strategy="optimal", solver="counts", convention=convention)
    assert plan.bounds == [plan.cost.value]
    found = verify_plan(plan, model=graph)
    assert found.ok
    assert math.fsum(level.moved or 0 for level in found.levels) == plan.cost.value


@pytest.mark.parametrize("model", late(["alexnet", "resnet50"], "resnet50"))
@pytest.mark.parametrize("convention", ["moved", "fused"])
def test_bytes_of_the_plan_are_the_bound_to_the_byte(model: str, convention: str) -> None:
    plan = plan_model(model, levels=7, strategy="optimal", convention=convention)
    assert plan.bounds == [plan.cost.value] == [math.fsum(split.cost for split in plan.splits)]
    greedy = plan_model(model, levels=7, strategy="optimal", search="greedy", convention=convention)
    assert plan.cost.value <= greedy.cost.value


@pytest.mark.parametrize(
    "asked",
    [
        {"pins": "conv1=height"},
        {"array": (4, 2), "space": "all"},
        {"space": "height,in_channels"},
        {"cost": "time", "hardware": "tpu-v2", "array": (4, 4)},
    ],
)
def test_what_depends_on_the_order_of_levels_is_left_to_the_search_over_tuples(asked: dict[str, Any]) -> None:
    plan = plan_model("lenet-c", strategy="optimal", **{"levels": None if "array" in asked else 2, **asked})
    assert plan.solver != "counts"
    with pytest.raises(ProblemError, match="solver 'counts': found costs that depend on the order of levels"):
        plan_model(
            "lenet-c",
            strategy="optimal",
            solver="counts",
            **{"levels": None if "array" in asked else 2, **asked},
        )


def test_branches_that_nest_have_a_plan_with_a_bound() -> None:
    plan = plan_model("unet", levels=10, strategy="optimal")
    assert plan.solver == "counts"
    assert plan.bounds is not None
    assert 0.98 * plan.cost.value < plan.bounds[0] < plan.cost.value
    gap = 1 - plan.bounds[0] / plan.cost.value
    assert f"not proven optimal, but the optimum is at most {gap:.2%} lower; joint search" in plan.claim


def test_a_gap_of_counts_is_closed_by_tuples_where_they_are_few() -> None:
    """Sums do not go straight to groups, which a bound of counts does not know."""
    plan = plan_model(
        "alexnet-2012", levels=5, strategy="optimal", space=THREE, convention="fused", search="joint"
    )
    counts = plan_model(
        "alexnet-2012", levels=5, strategy="optimal", space=THREE, convention="fused", solver="counts"
    )
    assert counts.bounds is not None
    assert counts.bounds[0] <= plan.cost.value <= counts.cost.value
