"""Phases that repeat those of other microbatches, against all of them issued one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hypar import plan_model
from hypar.schedule.tasks import Pipeline, TaskList

if TYPE_CHECKING:
    from hypar.schedule.pipeline_orders import Schedule
    from hypar.schedule.timeline import Timeline

WAYS: list[dict[str, Any]] = [
    {"microbatches": 4},
    {"microbatches": 4, "zero": 3, "recompute": "full", "precision": "bf16"},
    {"stages": 2, "microbatches": 4},
    {"stages": 2, "microbatches": 4, "schedule": "gpipe"},
    {"stages": 2, "microbatches": 8, "schedule": "interleaved", "parts": 2},
    {"array": (2,), "stages": 4, "microbatches": 8, "recompute": "full"},
    {"array": (2,), "stages": 4, "microbatches": 8, "recompute": "full:1/2", "schedule": "gpipe"},
    {
        "array": (2,),
        "stages": 4,
        "microbatches": 8,
        "recompute": "full",
        "schedule": "interleaved",
        "parts": 3,
    },
]


@pytest.mark.parametrize("own", WAYS)
def test_microbatches_repeat_what_would_be_issued(
    own: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, repeats = Pipeline.run, []

    def compared(self: Pipeline, schedule: Schedule, microbatches: int) -> Timeline:
        timeline, found = runs(self, schedule, microbatches), self.found
        repeated = found.tasks, found.pieces, found.places
        with monkeypatch.context() as patched:
            patched.setattr(TaskList, "alike", lambda *_: False)
            assert runs(self, schedule, microbatches) == timeline
        assert repeated == (found.tasks, found.pieces, found.places)
        return timeline

    def repeat(self: TaskList, *given: Any) -> None:
        repeats.append(given)
        repeated(self, *given)

    repeated = TaskList.repeat
    monkeypatch.setattr(Pipeline, "run", compared)
    monkeypatch.setattr(TaskList, "repeat", repeat)
    plan_model("gpt2", **{"array": (4,), "batch": 16, "hardware": "h100-8x", "strategy": "dp", **own})
    assert repeats
