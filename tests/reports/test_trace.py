"""A trace of a step has a track for each layer, and in a second process one for each resource."""

import json
import math
from itertools import pairwise
from typing import Any

import pytest

from hypar.planning.planner import plan_model
from hypar.planning.replay import ScoredStep, run_plan
from hypar.reports.steps import step_trace
from hypar.studies.step import StepRows

NAMES = {"forward", "backward", "gradient", "update", "receives"}


def check_step_trace(text: str, ran: ScoredStep) -> None:
    """The Trace Event Format, as Perfetto reads it, with every task of a step in both processes."""
    events = json.loads(text)["traceEvents"]
    slices = {
        number: [event for event in events if event["ph"] == "X" and event["pid"] == number]
        for number in (1, 2)
    }
    tracks = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in events
        if event["name"] == "thread_name"
    }
    tasks = StepRows(ran=ran).tasks
    assert len(tasks) == len(ran.timeline.tasks)
    assert len(slices[2]) == len(tasks)
    assert len(slices[1]) == sum(len(task.piece.groups) for task in tasks)
    by_name = {(task.name, task.piece.resource, task.start_s): task for task in tasks}
    for event in (*slices[1], *slices[2]):
        assert event["name"] in NAMES
        assert event.keys() >= {"name", "ph", "ts", "dur", "pid", "tid", "args"}
        assert event["args"].get("layer") in {None, *ran.plan.layers}
        _check_times(event, by_name)
    for event in slices[2]:
        assert tracks[2, event["tid"]] == event["args"]["resource"]
    assert {name for (process, _), name in tracks.items() if process == 2} == {*ran.timeline.busy}
    for place in tracks:
        own = [event for event in slices[place[0]] if event["tid"] == place[1]]
        own.sort(key=lambda event: event["ts"])
        for before, after in pairwise(own):
            assert before["ts"] + before["dur"] <= after["ts"] * (1 + 1e-9) + 1e-9


def _check_times(event: dict[str, Any], tasks: dict[Any, Any]) -> None:
    found = [
        task
        for (name, resource, _), task in tasks.items()
        if (name, resource) == (event["args"]["task"], event["args"]["resource"])
    ]
    assert any(
        math.isclose(event["ts"], task.start_s * 1e6) and math.isclose(event["dur"], task.piece.seconds * 1e6)
        for task in found
    )


@pytest.mark.parametrize("asked", [
    {"hardware": "hmc", "levels": 3},
    {"hardware": "h100-8x", "levels": 3},
    {"hardware": "tpu-v2-v3", "strategy": "accpar", "levels": 3},
    {"hardware": "hmc", "levels": 1, "stages": 2},
    {"hardware": "h100-8x", "levels": 1, "stages": 2},
])  # fmt: skip
def test_a_trace_holds_every_task(asked: dict[str, Any]) -> None:
    ran = run_plan(plan_model("lenet-c", **asked))
    text = step_trace(StepRows(ran))
    check_step_trace(text, ran)
    assert text == step_trace(StepRows(ran))


def test_arguments_name_layer_level_choice_and_bytes() -> None:
    ran = run_plan(plan_model("lenet-c", hardware="hmc", levels=2))
    events = json.loads(step_trace(StepRows(ran)))["traceEvents"]
    names = [
        event["args"]["name"] for event in events if event["name"] == "thread_name" and event["pid"] == 1
    ]
    assert names == ["conv1", "conv2", "fc1", "fc2"]
    assert [event["args"]["name"] for event in events if event["name"] == "process_name"] == [
        "layers",
        "resources",
    ]
    sent = next(event["args"] for event in events if event["ph"] == "X" and event["name"] == "receives")
    assert sent == {
        "task": "conv1 gradient all_reduce H2",
        "layer": "conv1",
        "phase": "gradient",
        "level": "H2",
        "choice": "H1 dp, H2 dp",
        "bytes": 8000.0,
        "resource": "h_tree links",
        "critical": True,
    }
    computed = next(event["args"] for event in events if event["ph"] == "X" and event["name"] == "forward")
    assert computed.keys() == {"task", "layer", "phase", "choice", "resource", "critical"}
