"""Stages that are given one by one, and the best number of stages: the fastest, whatever is known without planning it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hypar import load_machine, load_model, machines, plan_model
from hypar.errors import InputError, OptionError
from hypar.planning.resolved import Resolved
from hypar.planning.stages import planner, spans
from hypar.planning.stages.partition import divided
from hypar.planning.stages.spans import CutSpans, spans_of
from tests.effort import NETWORKS, TRANSFORMERS
from tests.heterogeneous import group, kind, write_machine
from tests.planning.parts import staged
from tests.staged import pipeline
from tests.transformers import gpt

if TYPE_CHECKING:
    from pathlib import Path

    from hypar import LayerGraph

HMC = load_machine("hmc")
ALEXNET = load_model("alexnet").with_batch(64)
LEVELS = 3
"""Two-way levels of the array that is divided into stages and levels inside them."""

# Given stages


def test_layers_before_the_first_one_that_is_cut_start_the_first_stage() -> None:
    plans = [pipeline(ALEXNET, starts=f"{first},fc1", hardware=HMC) for first in ("input", "conv1")]
    assert plans[0] == plans[1]


def test_pools_start_stages_where_they_are_planned() -> None:
    asked: dict[str, Any] = {"starts": "conv1,pool2,fc1", "levels": 0, "hardware": HMC}
    with pytest.raises(OptionError, match="found 'pool2', which stays with the layer before it"):
        plan_model(ALEXNET, **asked)
    plan = plan_model(ALEXNET, graph="operators", **asked)
    assert [stage.layers[0] for stage in staged(plan).stages] == ["conv1", "pool2", "fc1"]


@pytest.mark.parametrize("starts", [5, [5], {"conv1": 1}])
def test_starts_that_are_no_names_are_refused(starts: Any) -> None:
    with pytest.raises(
        OptionError, match=r"^starts: (found .*; allowed: names of layers|no layer is named '5')"
    ):
        plan_model(ALEXNET, starts=starts, levels=0, hardware=HMC)


# The best stages


def require_fastest(graph: LayerGraph, hardware: str, **asked: Any) -> None:
    """The best stages are no slower than no stages and every power of two of them."""
    machine = load_machine(hardware)
    mixed, others = machine.groups, 0
    levels = None if mixed else LEVELS
    fastest = plan_model(graph, hardware=machine, levels=levels, stages="best", **asked).score
    assert fastest is not None
    for outer in range(9 if mixed else LEVELS + 1):
        inside = None if mixed else LEVELS - outer
        own = {"stages": 2**outer, "levels": inside, **asked} if outer else {"levels": levels}
        try:
            other = plan_model(graph, hardware=machine, **own).score
        except InputError:
            continue
        assert other is not None
        assert not other.fits or fastest.time_s <= other.time_s * (1 + 1e-9)
        others += 1
    assert others


@pytest.mark.slow
@pytest.mark.parametrize(
    "hardware",
    [name for name in machines() if name == "tpu-v2-v3" or load_machine(name).num_devices % 2**LEVELS == 0],
)
@pytest.mark.parametrize("model", [*NETWORKS, *TRANSFORMERS])
def test_the_best_stages_are_never_slower(model: str, hardware: str) -> None:
    require_fastest(load_model(model), hardware)


@pytest.mark.parametrize("microbatches", [1, 4, 32])
def test_the_best_stages_of_given_microbatches_are_the_fastest_of_all(microbatches: int) -> None:
    require_fastest(ALEXNET, "hmc", microbatches=microbatches)


@pytest.mark.parametrize(
    ("hardware", "asked"),
    [
        ("hmc", {}),
        ("hmc", {"schedule": "1f1b", "convention": "fused"}),
        ("hmc", {"schedule": "interleaved", "parts": 2}),
        ("hmc", {"schedule": "layer-block"}),
        ("tpu-v2-v3", {}),
        ("h100-8x", {"chunks": "best"}),
    ],
)
def test_bounds_leave_out_no_better_stages(
    hardware: str, asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan is the same, to the byte, as if all candidates are divided into stages."""
    own: dict[str, Any] = {} if hardware == "tpu-v2-v3" else {"levels": LEVELS}
    own |= {"hardware": load_machine(hardware), "stages": "best", **asked}
    found = plan_model(ALEXNET, **own)
    monkeypatch.setattr(planner, "divided", lambda *given: divided(*given[:3]))
    assert plan_model(ALEXNET, **own).to_json() == found.to_json()


@pytest.mark.parametrize(
    ("graph", "asked"),
    [
        (gpt(8, blocks=4, ff=96), {"stages": 2, "levels": 3}),
        (gpt(8, blocks=4), {"stages": 4, "levels": 2, "convention": "paper"}),
        (gpt(8, blocks=4), {"stages": 2, "levels": 2, "convention": "moved", "balance": "memory"}),
        (ALEXNET, {"stages": "best", "levels": 3, "cost": "time"}),
    ],
    ids=["gpt", "paper", "memory", "alexnet"],
)
def test_equal_spans_change_no_plan(
    graph: LayerGraph, asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if every span of layers is planned by itself."""
    found = plan_model(graph, hardware=HMC, **asked)
    unlike = property(lambda spans: "".join(map(chr, range(len(spans.whole.layers)))))
    monkeypatch.setattr(CutSpans, "kinds", unlike)
    assert plan_model(graph, hardware=HMC, **asked).to_json() == found.to_json()


def test_equal_blocks_with_equal_pins_are_planned_once() -> None:
    graph = gpt(8, blocks=5)
    pins = [f"{layer.name}=dp" for layer in graph.contracted.layers]

    def kinds(*pins: str) -> int:
        plan = plan_model(graph, hardware=HMC, stages=2, levels=1, pins=pins, strategy="hypar")
        return len({*spans_of(Resolved.of(plan, HMC), graph, [None, None], 2)[0].kinds})

    assert kinds(*pins) == kinds()
    assert kinds(*pins, "h.2.up=mp") == kinds() + 1


def test_the_best_stages_count_what_they_add_up_of_a_tied_weight() -> None:
    """The exchange of its gradient is a tenth of a step, so that the order of estimates without it is another one."""
    graph = gpt(64, blocks=2, hidden=64, vocab=256)
    asked: dict[str, Any] = {"hardware": "hmc", "strategy": "hypar", "convention": "moved"}
    fastest = plan_model(graph, levels=4, stages="best", **asked).score
    other = plan_model(graph, levels=3, stages=2, microbatches=8, **asked).score
    assert fastest is not None
    assert other is not None
    assert fastest.time_s <= other.time_s * (1 + 1e-9)


@pytest.mark.parametrize("asked", [{}, {"schedule": "interleaved", "parts": 2}])
def test_stages_of_many_layers_end_between_blocks(
    asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spans, "MOST_LAYERS", 10)
    graph = gpt(8, blocks=4)
    plan = plan_model(graph, hardware="hmc", levels=1, stages=2, strategy="hypar", **asked)
    assert plan.claim is not None
    assert "between blocks that fit" in plan.claim
    names = [layer.name for layer in graph.contracted.layers]
    for stage in staged(plan).stages:
        (first, *_), last = stage.layers, names.index(stage.layers[-1])
        assert first == "wte" or first.endswith(".q")
        assert last == len(names) - 1 or names[last].endswith(".add2")
    with pytest.raises(OptionError, match="stages: found 9; allowed: 1 to 6, one for each block of layers"):
        plan_model(graph, hardware="hmc", levels=0, stages=9)


def test_no_stages_on_device_groups_where_none_are_faster(tmp_path: Path) -> None:
    kinds = {"a": kind(devices=4, peak="2 TFLOP/s", link="2 GB/s"), "b": kind(devices=4, overlap="full")}
    groups = [group(f"{name}.yaml", bandwidth="1 GB/s") for name in kinds]
    machine = load_machine(write_machine(tmp_path, kinds, groups))
    plan = plan_model("lenet-c", hardware=machine, stages="best", array=[2, 4], batch=1)
    assert not plan.staged
    assert plan.arrays == {"a": [4], "b": [4]} == staged(plan).arrays
