"""A space holds what can run: over all levels no dim is in more shards than it has elements, and what cannot be divided is in copies."""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar import load_model, plan_model, verify_plan
from hypar.errors import OptionError
from hypar.plan.request import Request
from hypar.planning.planner import resolve
from hypar.planning.question import ask
from hypar.planning.searches.named import costs_by_level
from hypar.sharding.placement import WHOLE, copies
from hypar.sharding.space import parse_space
from tests.effort import NETWORKS, crossed, examples, late
from tests.heterogeneous import CONV, INPUT, LINEAR, written
from tests.kit import output

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar import LayerGraph, Plan
    from hypar.network.nodes import PlanNode
    from hypar.sharding.placement import Options

ARRAYS = st.sampled_from(((2, 2), (2, 2, 2), (3, 2), (2, 3)))
SPACES = st.sampled_from(("batch", "batch,in_channels", "out_channels,batch", "batch,in_channels,height"))


def small(batch: int, *channels: int) -> LayerGraph:
    one, other, features = channels
    text = INPUT.format(one, 2, 2) + CONV.format("conv", other, "input")
    return written(
        text + "  - {name: flat, op: flatten, inputs: conv}\n" + LINEAR.format("fc", features, "flat"), batch
    )


def shards_fit(layer: PlanNode, choices: Sequence[Any]) -> bool:
    return all(
        math.prod(choice.degree(dim) for choice in choices) <= layer.nest.sizes[dim]
        for dim in {dim for choice in choices for dim in choice.divided}
    )


def beyond(plan: Plan, graph: LayerGraph) -> list[str]:
    """The layers of a plan in which a dim is in more shards than it has elements."""
    layers = graph.nodes(plan.graph).layers
    return [layer.name for layer in layers if not shards_fit(layer, plan.choices(layer.name))]


@crossed(
    {
        "model": late(NETWORKS, *(name for name in NETWORKS if name not in {"lenet-c", "resnet18", "gpt2"})),
        "asked": [
            {"strategy": "dp"},
            {"strategy": "optimal"},
            {"strategy": "hypar", "space": "batch,out_channels"},
        ],
        "levels": late([8, 20], 20),
    }
)
def test_every_network_has_a_plan_of_what_it_has(model: str, levels: int, asked: dict[str, Any]) -> None:
    graph = load_model(model)
    plan = plan_model(graph, levels=levels, **asked)
    assert not beyond(plan, graph)
    assert plan.bounds is None or plan.bounds[0] <= plan.cost.value


def that_run(layer: PlanNode, space: str, array: tuple[int, ...]) -> Iterator[Options]:
    """The choices of a layer at all levels that can run, by trying every other choice at each level."""
    free = [parse_space(space).choices(layer, ways) for ways in array]
    every = [tuple(dict.fromkeys((*own, WHOLE))) for own in free]
    for choices in product(*every):
        better = (
            shards_fit(layer, (*choices[:at], other, *choices[at + 1 :]))
            for at, ways in enumerate(array if layer.nest.multiplies else ())
            for other in every[at]
            if copies(other, ways) < copies(choices[at], ways)
        )
        if shards_fit(layer, choices) and not any(better):
            yield choices


@settings(max_examples=examples(400, short=20))
@given(
    batch=st.sampled_from((1, 2, 4)),
    channels=st.tuples(*[st.sampled_from((1, 2, 3, 4))] * 3),
    array=ARRAYS,
    space=SPACES,
    convention=st.sampled_from(("moved", "fused", "paper")),
)
def test_the_joint_optimum_is_the_least_of_all_plans_that_run(
    batch: int, channels: tuple[int, ...], array: tuple[int, ...], space: str, convention: str
) -> None:
    graph = small(batch, *channels)
    asked: dict[str, Any] = {"array": array, "space": space, "convention": convention, "strategy": "optimal"}
    plan = plan_model(graph, **asked)
    request = resolve(Request(**asked), graph)
    network = request.network(graph)
    question = ask(request, network)
    every = product(*[[*that_run(layer, space, array)] for layer in question.graph.layers])
    least = min(math.fsum(map(math.fsum, costs_by_level(question, choices))) for choices in every)
    assert plan.cost.value == pytest.approx(least, rel=1e-12)
    assert not beyond(plan, graph)


@pytest.mark.parametrize(
    "asked", [{"strategy": "dp"}, {"strategy": "optimal", "space": "batch,out_channels"}]
)
@pytest.mark.parametrize("array", [(2, 2, 2), (8,), (4, 2), (3, 2)])
def test_copies_of_a_layer_run_as_they_are_counted(asked: dict[str, Any], array: tuple[int, ...]) -> None:
    plan = plan_model(small(2, 1, 3, 2), array=array, **asked)
    each = [zip(plan.choices(layer), array, strict=True) for layer in plan.layers]
    assert any(copies(choice, ways) > 1 for own in each for choice, ways in own)
    assert verify_plan(plan).ok


def test_a_level_takes_what_is_left_of_a_dim_in_copies() -> None:
    plan = plan_model(small(32, 1, 3, 2), array=(64,), strategy="dp")
    assert {str(plan.choices(layer)[0].degrees) for layer in plan.layers} == {"(('batch', 32),)"}
    assert {copies(plan.choices(layer)[0], 64) for layer in plan.layers} == {2}


def test_microbatches_have_the_samples_that_are_cut() -> None:
    graph = small(8, 4, 8, 8)
    plan = plan_model(graph, array=(4,), stages=2, microbatches=4, strategy="dp", hardware="hmc")
    assert {plan.choices(layer)[0].degree("batch") for layer in plan.layers} == {2}


@pytest.mark.parametrize(
    ("pins", "asked", "found"),
    [
        ("conv=batch", {"levels": 4}, "16 shards of batch of 'conv', which has 8 elements"),
        (
            ("conv@H1=batch", "conv@H2=in_channels"),
            {"array": (2, 8)},
            "8 shards of in_channels of 'conv', which has 4",
        ),
        (
            "fc=batch",
            {"stages": 2, "microbatches": 4, "array": (4,), "hardware": "hmc"},
            "which has 2 elements in a microbatch of 4",
        ),
    ],
)
def test_pins_on_more_are_refused(pins: Any, asked: dict[str, Any], found: str) -> None:
    with pytest.raises(OptionError, match=found):
        plan_model(small(8, 4, 8, 8), strategy="optimal", pins=pins, **asked)
    if "stages" not in asked:
        assert beyond(plan_model(small(8, 4, 8, 8), strategy="hypar", pins=pins, **asked), small(8, 4, 8, 8))


def test_papers_divide_further_which_the_first_line_says() -> None:
    first = output("plan", "lenet-c", "--levels", "9").splitlines()[0]
    assert first.endswith("a step, in more shards than elements")
    assert "more shards" not in output("plan", "lenet-c", "--levels", "9", "--strategy", "optimal")
