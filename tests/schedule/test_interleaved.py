"""The interleaved schedule: its published order, its bubble and its activations."""

from __future__ import annotations

import pytest

from hypar.schedule.pipeline_orders import (
    Schedule,
    Work,
    in_flight,
    moments,
    staleness,
)
from tests.schedule.test_pipeline_orders import Pace, order_of, paced, spans_of

SHAPES = [(2, 2, 4), (4, 2, 8), (4, 4, 4), (3, 5, 6), (8, 3, 16)]
"""Numbers of stages, of parts and of microbatches."""


def works(stages: int, parts: int, microbatches: int, stage: int) -> list[Work]:
    """The work of a stage for a mini-batch."""
    return order_of(Schedule("interleaved", parts), stage, stages, microbatches)


def test_the_first_device_of_figure_4() -> None:
    """Narayanan et al. (SC21), Figure 4 below: four devices, two parts, eight microbatches."""
    each = works(4, 2, 8, 0)
    named = [f"{work.phase[0]}{work.item + 1}{'ab'[work.part]}" for work in each]
    assert named[:10] == ["f1a", "f2a", "f3a", "f4a", "f1b", "f2b", "f3b", "f4b", "f5a", "f6a"]
    assert named[10:20] == ["f7a", "b1b", "f8a", "b2b", "f5b", "b3b", "f6b", "b4b", "f7b", "b1a"]
    assert named[-3:] == ["b6a", "b7a", "b8a"]
    assert [name for name, work in zip(named, each, strict=True) if work.final] == ["b8b", "b8a"]


@pytest.mark.parametrize(("forward", "backward"), [(1, 2), (1, 1), (3, 1)])
@pytest.mark.parametrize(("stages", "parts", "microbatches"), SHAPES)
def test_the_bubble_is_smaller_by_the_number_of_parts(
    stages: int, parts: int, microbatches: int, forward: int, backward: int
) -> None:
    """(p - 1) / (v m) of the time in which equal stages compute; section 2.2."""
    paces = [Pace(forward / parts, backward / parts)] * (stages * parts)
    schedule = Schedule("interleaved", parts)
    computing = microbatches * (forward + backward)
    bubble = (stages - 1) / (parts * microbatches)
    makespan = paced(schedule, paces, microbatches).timeline.makespan
    assert makespan == pytest.approx((1 + bubble) * computing, rel=1e-12)
    orders = [order_of(schedule, stage, stages, microbatches, 2) for stage in range(stages)]
    assert {staleness(own, microbatches) for own in orders} == {0}


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
    step = paced(Schedule("interleaved", 2), paces, 2)
    assert sum(task.kind == "communication" for task in step.pieces) == 2 * 2 * 3
    orders = [[work._replace(final=False) for work in works(2, 2, 2, stage)] for stage in range(2)]
    assert [[*own] for own in spans_of(step, 2)] == orders
