"""The interleaved schedule: its published order, its bubble and its activations."""

from __future__ import annotations

from itertools import chain

import pytest

from hypar.errors import OptionError
from hypar.schedule.pipeline import Pace, paced
from hypar.schedule.pipeline_orders import (
    Work,
    checked_microbatches,
    in_flight,
    moments,
    schedule_of,
    staleness,
)
from hypar.schedule.timeline import run
from tests.schedule.test_pipeline_orders import full_step, ran

SHAPES = [(2, 2, 4), (4, 2, 8), (4, 4, 4), (3, 5, 6), (8, 3, 16)]
"""Numbers of stages, of parts and of microbatches."""


def works(stages: int, parts: int, microbatches: int, stage: int) -> list[Work]:
    """The work of a stage for a mini-batch."""
    return [*chain.from_iterable(schedule_of("interleaved", parts).steps(stage, stages, microbatches, 1))]


def test_the_first_device_of_figure_4() -> None:
    """Narayanan et al. (SC21), Figure 4 below: four devices, two parts, eight microbatches."""
    named = [f"{work.phase[0]}{work.item + 1}{'ab'[work.part]}" for work in works(4, 2, 8, 0)]
    assert named[:10] == ["f1a", "f2a", "f3a", "f4a", "f1b", "f2b", "f3b", "f4b", "f5a", "f6a"]
    assert named[10:20] == ["f7a", "b1b", "f8a", "b2b", "f5b", "b3b", "f6b", "b4b", "f7b", "b1a"]
    assert named[-4:] == ["b6a", "b7a", "b8a", "u1a"]
    assert named.index("u1b") == named.index("b8b") + 1


@pytest.mark.parametrize(("forward", "backward"), [(1, 2), (1, 1), (3, 1)])
@pytest.mark.parametrize(("stages", "parts", "microbatches"), SHAPES)
def test_the_bubble_is_smaller_by_the_number_of_parts(
    stages: int, parts: int, microbatches: int, forward: int, backward: int
) -> None:
    """(p - 1) / (v m) of the time in which equal stages compute; section 2.2."""
    paces = [Pace(forward / parts, backward / parts)] * (stages * parts)
    lowered = paced(schedule_of("interleaved", parts), paces, microbatches, 2)
    timeline = run(lowered.found.tasks)
    computing = microbatches * (forward + backward)
    bubble = (stages - 1) / (parts * microbatches)
    assert full_step(lowered, timeline).makespan == pytest.approx((1 + bubble) * computing, rel=1e-12)
    assert {staleness(own, microbatches) for own in ran(lowered, timeline)} == {0}


@pytest.mark.parametrize(("stages", "parts", "microbatches"), SHAPES)
def test_the_first_stage_keeps_more_by_the_published_factor(
    stages: int, parts: int, microbatches: int
) -> None:
    """L (1 + (p - 1) / (p v)) layers' activations for L layers, with enough microbatches; Korthikanti et al. (2022), 4.2.3."""
    most = [in_flight(works(stages, parts, 2 * microbatches, stage)) for stage in range(stages)]
    assert most[0] / (stages * parts) == pytest.approx(1 + (stages - 1) / (stages * parts))
    assert most == sorted(most, reverse=True)
    # A microbatch that waits behind the forward phase of a part is kept for that part and for those before it.
    kept = [*range(1, parts + 1), *range(parts - 1, 0, -1)]
    fullest = max(
        sum(count * each for count, each in zip(waiting, kept, strict=True)) + kept[piece]
        for piece, waiting in moments(works(stages, parts, 2 * microbatches, 0), parts)
        if piece < parts
    )
    assert fullest == most[0]


@pytest.mark.parametrize("overlap", [False, True])
def test_a_result_goes_from_the_last_stage_to_the_first(overlap: bool) -> None:
    """Two parts of two stages send three times each way."""
    paces = [Pace(received=1.0, returned=1.0, overlap=overlap)] * 4
    lowered = paced(schedule_of("interleaved", 2), paces, 2, 1)
    timeline = run(lowered.found.tasks)
    assert sum(task.kind == "communication" for task in timeline.tasks) == 2 * 2 * 3
    orders = [works(2, 2, 2, stage) for stage in range(2)]
    assert ran(lowered, timeline) == orders


@pytest.mark.parametrize("asked", [3, 6, 5])
def test_microbatches_are_a_multiple_of_the_stages(asked: int) -> None:
    allowed = "a multiple of the 4 stages that divides the batch, in schedule 'interleaved'"
    with pytest.raises(OptionError, match=allowed):
        checked_microbatches(asked, "interleaved", 60, 4)
    assert checked_microbatches(None, "interleaved", 60, 4) == 4
    with pytest.raises(OptionError, match="found 4 of a batch of 30"):
        checked_microbatches(None, "interleaved", 30, 4)
