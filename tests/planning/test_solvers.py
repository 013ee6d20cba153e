"""The joint search by counts and by every exact solver against elimination over all tuples of choices."""

from __future__ import annotations

import contextlib
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar import load_machine, load_model, plan_model
from hypar.errors import ProblemError
from hypar.machine.load import machine_of
from hypar.planning.question import Question
from hypar.planning.searches import named
from tests.effort import NETWORKS, TWINS, crossed, examples, late
from tests.generate import images, kind
from tests.planning.parts import scored
from tests.transformers import gpt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar import Machine, Plan

TWO, THREE = "batch,in_channels", "batch,in_channels,out_channels"
KINDS = [name for name in NETWORKS if name not in TWINS]


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Search by counts however few tuples there are."""
    monkeypatch.setattr(named, "COUNTING_PAYS", 0)


def planned(model: Any, **asked: Any) -> Plan:
    return plan_model(model, **{"strategy": "optimal", **asked})


def proven_by(solver: str, model: Any, **asked: Any) -> bool:
    """Hold a plan and its bound against the optimum of elimination; return whether the plan is proven."""
    found, best = (planned(model, solver=name, **asked) for name in (solver, "elimination"))
    least, slack = best.cost.value, 1e-9 * best.cost.value
    assert found.solver == solver
    assert found.bounds is not None
    assert found.bounds[0] <= least + slack
    assert found.cost.value >= least - slack
    if found.bounds[0] < found.cost.value:
        assert "not proven optimal" in found.claim
        return False
    assert found.claim.startswith("optimal, all levels jointly,")
    assert found.cost.value == pytest.approx(least, rel=1e-12 if asked.get("cost") is None else 1e-9)
    return True


TIME: dict[str, Any] = {"cost": "time", "space": THREE}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("alexnet", {"levels": 3, "space": THREE}),
    ("vgg16", {"levels": 3, "space": "all"}),
    ("resnet18", {"levels": 3, "space": THREE}),
    ("alexnet-2012", {"levels": 3, "space": TWO}),
    ("unet", {"levels": 3, "space": THREE}),
    ("alexnet", {"array": (3, 2, 2)}),
    ("alexnet", {"array": (4, 2, 3), "space": THREE}),
    ("alexnet", {"levels": 3, "pins": "fc1=in_channels"}),
    ("alexnet", {"levels": 3, "pins": ("conv2@H2=out_channels", "fc2@H1=batch")}),
    ("alexnet", {"levels": 3, "graph": "operators"}),
    ("alexnet", {"levels": 3, "inter_weight": 0.5, "convention": "moved"}),
    ("alexnet", {"levels": 3, "space": "conv:batch,out_channels linear:in_channels,out_channels"}),
    ("alexnet", {**TIME, "hardware": "hmc", "levels": 3}),
    ("alexnet", {**TIME, "hardware": "tpu-v2", "levels": 4}),
]
LONG = [
    ("vgg16", {**TIME, "hardware": "tpu-v2", "levels": 3, "space": "all"}),
    ("resnet18", {**TIME, "hardware": "p100-4x4", "levels": 3}),
    ("googlenet", {**TIME, "hardware": "p100-4x4", "levels": 2}),
]
SEARCHED = ((3, TWO), (2, "all"), (3, THREE), (4, THREE), (3, "all"), (5, TWO))
LONG += [(model, {"levels": levels, "space": space}) for model in KINDS for levels, space in SEARCHED]
LONG = [case for case in LONG if case not in CASES]


@crossed(
    {
        "model,asked": [*CASES, *(pytest.param(*one, marks=pytest.mark.slow) for one in LONG)],
        "convention": ["moved", "fused"],
    }
)
def test_counts_equal_elimination(model: str, asked: dict[str, Any], convention: str) -> None:
    assert proven_by("counts", model, **{"convention": convention, **asked})


@st.composite
def networks(draw: st.DrawFn) -> dict[str, Any]:
    """Small networks on images, with sums and concatenations, and without groups, by which searches by counts may leave a gap."""
    model = images(lambda values: draw(st.sampled_from(values))).model
    layers = [{name: own[name] for name in own if name != "groups"} for own in model["layers"]]
    return model | {"layers": layers}


@settings(max_examples=examples(400, short=10))
@given(
    model=networks(),
    array=st.sampled_from(((2, 2), (2, 2, 2), (3, 2), (2, 4, 2))),
    space=st.sampled_from((TWO, THREE, "batch,height,out_channels,in_channels")),
    convention=st.sampled_from(("moved", "fused")),
)
def test_counts_equal_elimination_on_random_networks(model: dict[str, Any], **asked: Any) -> None:
    """Where there are fewer samples than devices, height and width are cut, or layers computed in copies: the bound holds."""
    few = math.prod(asked["array"]) > model["batch"]
    with contextlib.suppress(*[ProblemError] * few):  # copies at levels of unlike ways
        assert proven_by("counts", load_model(model, name="random"), **asked) or few


@pytest.mark.parametrize(
    "asked",
    [
        {"levels": 2, "pins": "conv1=height"},
        {"array": (4, 2), "space": "all"},
        {"levels": 2, "space": "height,in_channels"},
        {"cost": "time", "hardware": "tpu-v2", "array": (4, 4)},
    ],
)
def test_what_depends_on_the_order_of_levels_is_left_to_the_search_over_tuples(asked: dict[str, Any]) -> None:
    assert planned("lenet-c", **asked).solver != "counts"
    with pytest.raises(ProblemError, match="solver 'counts': found costs that depend on the order of levels"):
        planned("lenet-c", solver="counts", **asked)


def test_branches_that_nest_have_a_plan_with_a_bound() -> None:
    plan = planned("unet", levels=9)
    assert plan.solver == "counts"
    assert plan.bounds is not None
    assert 0.98 * plan.cost.value < plan.bounds[0] < plan.cost.value
    gap = 1 - plan.bounds[0] / plan.cost.value
    assert f"not proven optimal, but the optimum is at most {gap:.2%} lower; joint search" in plan.claim


@pytest.mark.parametrize(
    ("model", "levels"), [("bert-large", 5), ("gpt2", 6), ("googlenet", 6), ("llama3-8b", 5)]
)
def test_transformers_and_branches_of_few_levels_are_proven_by_paper(model: str, levels: int) -> None:
    plan = plan_model(model, levels=levels, strategy="optimal", convention="paper", cost="volume")
    assert plan.bounds is None or plan.bounds == [plan.cost.value]


def test_a_gap_of_counts_is_closed_by_tuples_where_they_are_few() -> None:
    """Sums do not go straight to groups, which a bound of counts does not know."""
    asked: dict[str, Any] = {"levels": 5, "space": THREE, "convention": "fused"}
    plan, counted = planned("alexnet-2012", **asked), planned("alexnet-2012", solver="counts", **asked)
    assert counted.bounds is not None
    assert counted.bounds[0] <= plan.cost.value <= counted.cost.value


@pytest.mark.parametrize(("tied", "unweighted"), [(False, "free"), (False, "counted"), (True, "free")])
def test_a_transformer_takes_the_time_of_its_attention_and_of_its_words_in_memory(
    tied: bool, unweighted: str
) -> None:
    """An embedding, and a join or a norm where the machine counts it, computes nothing, but accesses memory."""
    asked = {"cost": "time", "hardware": load_machine("tpu-v3", {"unweighted": unweighted}), "levels": 2}
    assert proven_by("counts", gpt(tied=tied), **asked) or tied
    best = planned(gpt(tied=tied), solver="elimination", **asked)
    assert best.cost.value == pytest.approx(scored(best).time_s)


def machine_of_networks(tiers: Sequence[tuple[str, int, int, int]], peak: float, half: float = 0) -> Machine:
    """A machine of networks inside one another: the topology, devices, GB/s of a link and microseconds of latency of each."""
    data = kind(peak=f"{peak} TFLOP/s", half_efficiency=half, memory_bandwidth="700 GB/s")
    data["interconnect"] = [
        kind(topology=name, devices=devices, link=f"{rate} GB/s", latency=f"{late} us")["interconnect"]
        for name, devices, rate, late in tiers
    ]
    machine: Machine = machine_of(Path("drawn.yaml"), yaml.safe_dump(data))
    return machine


def test_transfers_at_an_inner_level_cost_no_latency_further_out() -> None:
    """Levels that charge the same lie on both sides of one that charges latency as well."""
    machine = machine_of_networks([("switch", 2, 1, latency) for latency in (0, 0, 1, 0)], peak=0.001)
    made = {"first": (2, []), "left": (1, ["first"]), "more": (8, ["left"]), "right": (1, ["first"])}
    made["most"] = (8, ["right"])
    conv = {"op": "conv", "kernel": 1, "padding": 0}
    layers: list[dict[str, Any]] = [{"op": "input", "channels": 1, "height": 4, "width": 4}]
    for name, (channels, read) in made.items():
        layers.append({"name": name, **conv, "out_channels": channels, **({"inputs": read} if read else {})})
    layers += [{"name": "sum", "op": "add", "inputs": ["more", "most"]}, {"op": "flatten"}]
    layers.append({"op": "linear", "out_features": 1})
    graph = load_model({"source": "drawn", "batch": 2, "layers": layers}, name="drawn")
    assert proven_by("counts", graph, cost="time", array=(2, 2, 2, 2), space=THREE, hardware=machine)


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    """Machines of eight devices of up to three networks, or of sixteen of four; outer ones may be the faster ones."""
    names, rates, late = (
        st.sampled_from(("switch", "torus", "h_tree")),
        st.sampled_from((1, 10, 100)),
        (0, 1, 100),
    )
    tiers = [
        (draw(names), devices, draw(rates), draw(st.sampled_from(late)))
        for devices in draw(st.sampled_from(((8,), (2, 4), (4, 2), (2, 2, 2), (2, 2, 2, 2))))
    ]
    return machine_of_networks(tiers, draw(st.sampled_from((0.001, 1, 100))), draw(st.sampled_from((0, 1e6))))


@settings(max_examples=examples(400, short=4))
@given(
    model=networks(),
    machine=machines(),
    array=st.sampled_from(((2, 2), (2, 2, 2))),
    space=st.sampled_from((THREE, "all", "batch,height,out_channels,in_channels", "batch*in_channels")),
    asked=st.sampled_from((("moved", "time"), ("fused", "time"), ("moved", "accpar"))),
)
def test_a_bound_of_counts_is_valid_on_random_networks_and_machines(
    model: dict[str, Any], machine: Machine, array: tuple[int, ...], space: str, asked: tuple[str, str]
) -> None:
    graph = load_model(model, name="random")
    if machine.num_devices == 16:
        array, space = (2, 2, 2, 2), THREE
    own: dict[str, Any] = {"array": array, "space": space, "hardware": machine}
    with contextlib.suppress(ProblemError):  # no tiers, as inner levels are dearer than outer ones
        proven_by("counts", graph, convention=asked[0], cost=asked[1], **own)


SMALL = ("lenet-c", "alexnet", "resnet18", "sfc")
"""Networks of the quick run, of one kind each: chains and residual ones, with convolutions and without."""


@crossed(
    {"model": late(KINDS, *(name for name in KINDS if name not in SMALL)), "levels": late([2, 3, 4], 2, 4)}
)
def test_five_dims_are_three(model: str, levels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By elimination over all tuples, with height and width as they are: they lower no cost, to the byte."""
    asked: dict[str, Any] = {"levels": levels, "convention": "paper"}
    reduced, three = planned(model, **asked), planned(model, space=THREE, **asked)
    monkeypatch.setattr(Question, "without_spatial", lambda own: own)
    whole = planned(model, **asked)
    assert whole.cost.value == three.cost.value == reduced.cost.value
    assert whole.bounds in (None, [whole.cost.value])


@pytest.mark.usefixtures("more_solvers")
def test_a_cut_of_height_stays_where_the_batch_cannot_take_its_place() -> None:
    asked: dict[str, Any] = {"levels": 2, "space": "height,in_channels,out_channels", "convention": "paper"}
    free = planned("lenet-c", **asked)
    assert any("height" in free.dims(layer) for layer in free.layers)
    assert free.cost.value == planned("lenet-c", solver="exhaustive", **asked).cost.value
