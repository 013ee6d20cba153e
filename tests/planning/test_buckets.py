"""Chunks as plain numbers: the closed forms, and the best of all groupings."""

from __future__ import annotations

import math
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cgdp_2018 import groupings
from hypothesis import given
from hypothesis import strategies as st

from hypar.machine.profiles import measured_devices, with_times
from hypar.machine.setting import Setting
from hypar.machine.step_times import LayerTimes, StepTimes
from hypar.planning.climb import best_sizes, spans
from hypar.schedule.lanes import Lane
from hypar.schedule.stages import StepWork
from hypar.schedule.timeline import run
from hypar.sharding.placement import cut
from tests.network.test_graph import network

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar import LayerGraph, Machine
    from hypar.planning.climb import Sizes
    from hypar.schedule.stages import Step

WHOLE = st.integers(0, 6).map(float)
"""Few numbers, so that many groupings take as long."""

REAL = st.floats(0, 1e3) | st.floats(0, 1e-3)


def times_of(rows: Sequence[tuple[float, ...]], sync_s: float, forward_s: float = 0.0) -> StepTimes:
    """Layers, first to last, of a backward phase and one or several parts of an exchange each."""
    layers = tuple(
        LayerTimes(
            name=f"fc{number}",
            forward_s=forward_s,
            backward_s=backward,
            exchange_s=math.fsum(parts),
        )
        for number, (backward, *parts) in enumerate(rows, 1)
    )
    return StepTimes(layers=layers, sync_s=sync_s)


@st.composite
def steps(draw: st.DrawFn, *, most: int = 12) -> StepTimes:
    """Up to twelve layers, of whole seconds or of any."""
    seconds = draw(st.sampled_from([WHOLE, REAL]))
    count, parts = draw(st.integers(1, most)), draw(st.integers(1, 3))
    rows = draw(st.lists(st.tuples(*[seconds] * (1 + parts)), min_size=count, max_size=count))
    return times_of(rows, draw(seconds), draw(seconds))


@cache
def fully_connected(count: int) -> LayerGraph:
    return network(
        "{op: input, channels: 2}",
        *(f"{{op: linear, name: fc{number}, out_features: 2}}" for number in range(1, count + 1)),
    )


@cache
def devices(exchange: str) -> Machine:
    return measured_devices(Path("devices.yaml"), {"exchange": exchange})


def lowered(times: StepTimes, sizes: Sizes, exchange: str) -> Step:
    """The engine's step of fully connected layers that were measured."""
    graph = fully_connected(len(times.layers))
    machine = with_times(devices(exchange), times)
    setting = Setting(machine=machine, array=(2,), element_bytes=graph.element_bytes)
    lane = Lane(graph.contracted, [(cut("batch", 2),)] * len(times.layers), setting)
    left = iter(reversed(range(len(times.layers))))
    return StepWork.of([lane]).run(tuple(tuple(islice(left, size)) for size in sizes))


# Closed forms


def test_independent_by_hand() -> None:
    """Layers 3, 2, 1 of 10 s each; a synchronisation of 1 s stalls what comes behind it."""
    times = times_of([(10, 2), (10, 3), (10, 40)], 1)
    assert spans(times, (1, 1, 1), serial=False) == [10 + 1 + 40, 20 + 2 + 3, 30 + 3 + 2]
    assert spans(times, (1, 2), serial=False) == [51, 30 + 2 + 5]


def test_serial_by_hand() -> None:
    """The link is busy with layer 3 until 51 s, and then with the two others."""
    times = times_of([(10, 2), (10, 3), (10, 40)], 1)
    assert spans(times, (1, 1, 1), serial=True) == [10 + 3 + 45, 20 + 2 + 5, 30 + 1 + 2]
    assert spans(times, (3,), serial=True) == [30 + 1 + 45]


@pytest.mark.parametrize("name", ["independent", "serial"])
@given(times=steps(), numbers=st.data())
def test_the_engine_takes_as_long_as_the_closed_form(
    name: str, times: StepTimes, numbers: st.DataObject
) -> None:
    cuts = numbers.draw(st.integers(0, 2 ** (len(times.layers) - 1) - 1))
    sizes = next(found for number, found in enumerate(groupings(len(times.layers))) if number == cuts)
    closed = sum(layer.forward_s for layer in times.layers) + max(
        spans(times, sizes, serial=name == "serial")
    )
    assert run(lowered(times, sizes, name).timeline.tasks).makespan == pytest.approx(closed, rel=1e-12)


# The best


def preference(name: str, sizes: Sizes) -> tuple[int, Sizes]:
    """Fewest chunks, then the largest: from the first on, or on a serial link from the last back."""
    return -len(sizes), sizes if name == "independent" else sizes[::-1]


@pytest.mark.parametrize("name", ["independent", "serial"])
@given(times=steps())
def test_the_best_is_that_of_all_groupings_ties_included(name: str, times: StepTimes) -> None:
    serial = name == "serial"
    longest = {sizes: max(spans(times, sizes, serial=serial)) for sizes in groupings(len(times.layers))}
    least = min(longest.values())
    ties = [sizes for sizes, span in longest.items() if span == least]
    found = best_sizes(times, serial=serial)
    assert longest[found] == least
    assert found == max(ties, key=lambda sizes: preference(name, sizes))
