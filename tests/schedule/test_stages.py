"""Copied tasks of microbatches against those that are lowered one by one."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import pytest

from hypar import load_model, plan_model
from hypar.planning.replay import run_plan
from hypar.schedule.stages import _Phase
from hypar.schedule.tasks import TaskList

if TYPE_CHECKING:
    from typing import Any


@pytest.mark.parametrize(
    ("model", "asked"),
    [
        ("lenet-c", {"stages": 2, "schedule": "interleaved", "parts": 2}),
        ("resnet18", {"stages": 3, "schedule": "gpipe", "microbatches": 8, "convention": "moved"}),
    ],
)
def test_a_microbatch_is_lowered_as_any_other(
    model: str, asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks, what they wait for, and when they run."""
    graph = load_model(model).with_batch(64)
    plan = plan_model(graph, hardware="hmc", levels=2, **asked)
    copies = 0

    def count(self: TaskList, *args: Any) -> None:
        nonlocal copies
        copies += 1
        copy(self, *args)

    copy = TaskList.copy
    monkeypatch.setattr(TaskList, "copy", count)
    copied = run_plan(plan, hardware="hmc", model=graph)
    assert copies
    monkeypatch.setattr(_Phase, "consecutive", lambda *_: False)
    copies = 0
    lowered = run_plan(plan, hardware="hmc", model=graph)
    assert not copies
    for field in fields(lowered.step):
        assert getattr(copied.step, field.name) == getattr(lowered.step, field.name)
    assert copied.timeline == lowered.timeline
