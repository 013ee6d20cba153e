"""The joint search by counts for the costs ``time`` and ``accpar`` against the search over all tuples of choices."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar import load_model, plan_model
from hypar.errors import ProblemError
from hypar.machine.load import load_machine, machine_of
from hypar.planning.searches.jointly import counts
from tests.effort import examples
from tests.planning.test_counts import THREE, networks
from tests.transformers import gpt

if TYPE_CHECKING:
    from hypar.machine.machine import Machine
    from hypar.plan.plan import Plan


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Search by counts however few tuples there are."""
    monkeypatch.setattr(counts, "COUNTING_PAYS", 0)


def both(model: Any, **asked: Any) -> tuple[Plan, Plan]:
    """The plan by counts, proven or not, and the plan over all tuples."""
    asked = {"strategy": "optimal", "cost": "time", **asked}
    return plan_model(model, solver="counts", **asked), plan_model(model, solver="elimination", **asked)


def require_valid(found: Plan, proven: Plan) -> bool:
    """Check that the bound is no higher than the optimum, and the plan no cheaper; return whether it is proven."""
    best, slack = proven.cost.value, 1e-9 * proven.cost.value
    assert found.bounds is not None
    assert found.bounds[0] <= best + slack
    assert found.cost.value >= best - slack
    if found.bounds[0] < found.cost.value:
        assert "not proven optimal" in found.claim
        return False
    assert found.cost.value == pytest.approx(best, rel=1e-9)
    return True


PROVEN = [
    ("alexnet", "hmc", 3, THREE),
    ("alexnet", "tpu-v2", 4, THREE),
    ("vgg16", "tpu-v2", 3, "all"),
    ("resnet18", "p100-4x4", 3, THREE),
    ("vgg16", "hmc", 4, "all"),
    ("resnet18", "tpu-v2", 3, "all"),
    ("googlenet", "p100-4x4", 2, THREE),
    ("inception-v3", "tpu-v2", 2, THREE),
]


@pytest.mark.parametrize("unweighted", ["free", "counted"])
def test_a_transformer_takes_the_time_of_its_attention_and_of_its_words_in_memory(unweighted: str) -> None:
    """An embedding, and a join or a norm where the machine counts it, computes nothing, but accesses memory."""
    machine = load_machine("tpu-v3", {"unweighted": unweighted})
    found, proven = both(gpt(tied=False), hardware=machine, levels=2)
    assert require_valid(found, proven)
    assert proven.score is not None
    assert proven.cost.value == pytest.approx(proven.score.time_s)


def test_counts_bound_the_time_of_a_transformer_of_one_embedding() -> None:
    found, proven = both(gpt(), hardware="tpu-v3", levels=2)
    require_valid(found, proven)
    assert proven.score is not None
    assert proven.cost.value == pytest.approx(proven.score.time_s)


LONG = [
    (model, machine, levels, space)
    for model in ("alexnet", "vgg16", "resnet18", "resnet50", "googlenet", "inception-v3")
    for machine in ("hmc", "p100-4x4", "tpu-v2", "tpu-v3")
    for levels, space in ((3, THREE), (4, THREE), (3, "all"))
    if (model, machine, levels, space) not in PROVEN
]


@pytest.mark.parametrize(
    ("model", "machine", "levels", "space"),
    [
        *PROVEN[:2],
        *[pytest.param(*case, marks=pytest.mark.slow) for case in PROVEN[2:]],
    ],
)
def test_it_equals_elimination_on_machines(model: str, machine: str, levels: int, space: str) -> None:
    assert require_valid(*both(model, hardware=machine, levels=levels, space=space))


@pytest.mark.slow
@pytest.mark.parametrize("convention", ["moved", "fused"])
@pytest.mark.parametrize(("model", "machine", "levels", "space"), LONG)
def test_its_bound_is_valid_on_machines(
    model: str, machine: str, levels: int, space: str, convention: str
) -> None:
    require_valid(*both(model, hardware=machine, levels=levels, space=space, convention=convention))


MACHINE = """
source: drawn
device:
  compute:
    name: roofline
    peak: {{value: {peak} TFLOP/s, source: drawn}}
    half_efficiency_flop: {{value: {half}, source: drawn}}
  memory:
    capacity: {{value: 16 GB, source: drawn}}
    bandwidth: {{value: 700 GB/s, source: drawn}}
interconnect:
"""
NETWORK = """
  - topology: {topology}
    devices: {{value: {devices}, source: drawn}}
    link_bandwidth: {{value: {rate} GB/s, source: drawn}}
    latency: {{value: {latency} us, source: drawn}}
"""


def test_transfers_at_an_inner_level_cost_no_latency_further_out() -> None:
    """Levels that charge the same lie on both sides of one that charges latency as well."""
    text = MACHINE.format(peak=0.001, half=0)
    for latency in (0, 0, 1, 0):
        text += NETWORK.format(topology="switch", devices=2, rate=1, latency=latency)
    made = {
        "first": (2, None),
        "left": (1, "first"),
        "more": (8, "left"),
        "right": (1, "first"),
        "most": (8, "right"),
    }
    convolutions = [
        {"name": name, "op": "conv", "kernel": 1, "padding": 0, "out_channels": channels}
        | ({"inputs": [read]} if read else {})
        for name, (channels, read) in made.items()
    ]
    layers = [
        {"op": "input", "channels": 1, "height": 4, "width": 4},
        *convolutions,
        {"name": "sum", "op": "add", "inputs": ["more", "most"]},
        {"op": "flatten"},
        {"op": "linear", "out_features": 1},
    ]
    graph = load_model({"source": "drawn", "batch": 2, "layers": layers}, name="drawn")
    machine = machine_of(Path("drawn.yaml"), text)
    assert require_valid(*both(graph, array=(2, 2, 2, 2), space=THREE, hardware=machine))


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    """Machines of eight devices of up to three networks, or of sixteen of four; outer ones may be the faster ones."""
    text = MACHINE.format(peak=draw(st.sampled_from((0.001, 1, 100))), half=draw(st.sampled_from((0, 1e6))))
    for devices in draw(st.sampled_from(((8,), (2, 4), (4, 2), (2, 2, 2), (2, 2, 2, 2)))):
        text += NETWORK.format(
            topology=draw(st.sampled_from(("switch", "torus", "h_tree"))),
            devices=devices,
            rate=draw(st.sampled_from((1, 10, 100))),
            latency=draw(st.sampled_from((0, 1, 100))),
        )
    return machine_of(Path("drawn.yaml"), text)


drawn = given(
    model=networks(),
    machine=machines(),
    array=st.sampled_from(((2, 2), (2, 2, 2))),
    space=st.sampled_from((THREE, "all", "batch,height,out_channels,in_channels", "batch*in_channels")),
    asked=st.sampled_from((("moved", "time"), ("fused", "time"), ("moved", "accpar"))),
)
"""A random network and machine with a request."""


def outcome(
    model: dict[str, Any], machine: Machine, array: tuple[int, ...], space: str, asked: tuple[str, str]
) -> str:
    """Compare a search by counts with that over all tuples, and return what it found."""
    graph = load_model(model, name="random")
    if machine.num_devices == 16:
        array, space = (2, 2, 2, 2), THREE
    given = {"array": array, "space": space, "convention": asked[0], "cost": asked[1], "hardware": machine}
    try:
        pair = both(graph, **given)
    except ProblemError:
        return "no tiers, as inner levels are dearer than outer ones"
    return "proven" if require_valid(*pair) else "bounded"


@settings(max_examples=examples(400, short=4))
@drawn
def test_its_bound_is_valid_on_random_networks_and_machines(**asked: Any) -> None:
    outcome(**asked)


@pytest.mark.slow
@pytest.mark.long
def test_its_bound_is_valid_on_two_thousand_random_networks_and_machines() -> None:
    seen: Counter[str] = Counter()

    @settings(max_examples=2000)
    @drawn
    def valid(**asked: Any) -> None:
        seen[outcome(**asked)] += 1

    valid()
    found = ", ".join(f"{number} {name}" for name, number in seen.items())
    sys.stdout.write(f"{seen.total()} random networks and machines: {found}\n")
    assert seen.total() >= 2000


def test_a_wider_space_has_no_dearer_a_plan() -> None:
    """With cuts of height and width, and idle devices, the bound stays open."""
    asked: dict[str, Any] = {
        "levels": 8,
        "hardware": load_machine("tpu-v3"),
        "cost": "time",
        "strategy": "optimal",
    }
    narrow, wide = (plan_model("alexnet", space=space, **asked) for space in (THREE, "all"))
    assert narrow.bounds == [narrow.cost.value]
    assert wide.bounds is not None
    assert wide.bounds[0] < wide.cost.value <= narrow.cost.value


@pytest.mark.slow
@pytest.mark.parametrize("hardware", ["h100-8x", "tpu-v3"])
def test_a_large_transformer_is_divided_over_all_devices(hardware: str) -> None:
    plan = plan_model(
        "llama3-8b", array=(2,) * 6, batch=64, hardware=hardware, strategy="optimal", cost="time"
    )
    assert plan.bounds is not None
    assert plan.bounds[0] >= 0.99 * plan.cost.value
    assert plan.baselines is not None
    assert plan.baselines.taken == "search"
