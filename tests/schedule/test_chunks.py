"""Chunks as plain numbers: the rule, the closed forms, the best of all groupings, and the search for a size."""

from __future__ import annotations

from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypar.machine.measured import measured_devices, with_times
from hypar.machine.setting import Setting
from hypar.machine.step_times import LayerTimes, StepTimes
from hypar.schedule.chunks.best import best_sizes
from hypar.schedule.chunks.exchanges import EXCHANGES
from hypar.schedule.chunks.sizes import groupings, rule_sizes, search_size
from hypar.schedule.lanes import Lane
from hypar.schedule.step import lower_lanes
from hypar.sharding.placement import cut
from hypar.timeline import run
from tests.network.test_gradients import network

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hypar import LayerGraph, Machine
    from hypar.schedule.chunks.exchanges import Sizes
    from hypar.schedule.step import Step

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
            exchange_s={f"part {place}": part for place, part in enumerate(parts)},
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
    return lower_lanes([lane], chunks=tuple(tuple(islice(left, size)) for size in sizes))


# The rule and its kin


@pytest.mark.parametrize("count", range(1, 14))
def test_the_rule_by_its_two_cases(count: int) -> None:
    for size in range(1, count + 1):
        sizes = rule_sizes(count, size)
        whole = count // size - 1 if count % size == 0 else count // size
        assert sum(sizes) == count
        assert sizes[:whole] == (size,) * whole
        assert set(sizes[whole:]) == {1}


@pytest.mark.parametrize("count", range(1, 11))
def test_groupings_are_all_and_each_once(count: int) -> None:
    found = list(groupings(count))
    assert len(set(found)) == len(found) == 2 ** (count - 1)
    assert all(sum(sizes) == count and min(sizes) > 0 for sizes in found)


# Closed forms


def test_independent_by_hand() -> None:
    """Layers 3, 2, 1 of 10 s each; a synchronisation of 1 s stalls what comes behind it."""
    times = times_of([(10, 2), (10, 3), (10, 40)], 1)
    spans = EXCHANGES["independent"].spans
    assert spans(times, (1, 1, 1)) == [10 + 1 + 40, 20 + 2 + 3, 30 + 3 + 2]
    assert spans(times, (1, 2)) == [51, 30 + 2 + 5]


def test_serial_by_hand() -> None:
    """The link is busy with layer 3 until 51 s, and then with the two others."""
    times = times_of([(10, 2), (10, 3), (10, 40)], 1)
    spans = EXCHANGES["serial"].spans
    assert spans(times, (1, 1, 1)) == [10 + 3 + 45, 20 + 2 + 5, 30 + 1 + 2]
    assert spans(times, (3,)) == [30 + 1 + 45]


@pytest.mark.parametrize("name", EXCHANGES)
@given(times=steps(), numbers=st.data())
def test_the_engine_takes_as_long_as_the_closed_form(
    name: str, times: StepTimes, numbers: st.DataObject
) -> None:
    exchange = EXCHANGES[name]
    cuts = numbers.draw(st.integers(0, 2 ** (len(times.layers) - 1) - 1))
    sizes = next(found for number, found in enumerate(groupings(len(times.layers))) if number == cuts)
    closed = times.forward_s + max(exchange.spans(times, sizes))
    assert run(lowered(times, sizes, name).tasks).makespan == pytest.approx(closed, rel=1e-12)


# The best


def preference(name: str, sizes: Sizes) -> tuple[int, Sizes]:
    """Fewest chunks, then the largest: from the first on, or on a serial link from the last back."""
    return -len(sizes), sizes if name == "independent" else sizes[::-1]


@pytest.mark.parametrize("name", EXCHANGES)
@given(times=steps())
def test_the_best_is_that_of_all_groupings_ties_included(name: str, times: StepTimes) -> None:
    exchange = EXCHANGES[name]
    spans = {sizes: max(exchange.spans(times, sizes)) for sizes in groupings(len(times.layers))}
    least = min(spans.values())
    ties = [sizes for sizes, span in spans.items() if span == least]
    found = best_sizes(times, exchange)
    assert spans[found] == least
    assert found == max(ties, key=lambda sizes: preference(name, sizes))


# The search for a size


def printed(
    lapse: Callable[[int], float], step: int, reach: int, interval: int
) -> tuple[list[int], int, int]:
    """Algorithm 1 line by line, iteration by iteration: the sizes measured, the best one, and the last iteration."""
    measured: list[int] = []
    chunk = best_chunk = 1  # line 2
    lapse_min = float("inf")
    iteration = 1
    while True:  # line 5, of a training long enough
        if iteration % interval == 0:  # line 7
            if chunk >= best_chunk + step * reach:  # line 8
                return measured, best_chunk, iteration  # lines 9 and 10
            measured.append(chunk)
            if lapse(chunk) < lapse_min:  # lines 13 and 14
                lapse_min, best_chunk = lapse(chunk), chunk  # lines 15 and 16
            chunk = chunk + 1 if chunk < step else chunk + step  # lines 18 to 22
        iteration += 1  # line 26


def valley(best: int) -> Callable[[int], float]:
    """Times that fall to a size and rise after it, by one from each size to the next."""
    return lambda size: abs(size - best)


BY_HAND = [
    # Step 3: 1, 2, 3, 6, 9, .. With range 2 the end is at 3 * 2 = 6 past the best.
    # Size 7 is never tried. Of 3 and 6, 4 and 1 away, 6 is best, and 9, 2 away, is not; 12 >= 6 + 6 ends it.
    (3, 2, 7, [1, 2, 3, 6, 9], 6, 12, 60),
    # Step 5: 1 to 5, 10, 15, .. With range 5 the end is at 25 past the best: 25 < 2 + 25 is measured, 30 >= 27 ends it.
    (5, 5, 2, [1, 2, 3, 4, 5, 10, 15, 20, 25], 2, 30, 100),
    # The paper's own case, section 5.3: best at iteration 90, six more, stops at iteration 150. 50 < 59, 60 >= 59.
    (10, 5, 9, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30, 40, 50], 9, 60, 150),
]
"""Step, range, the size that is fastest; by hand from the algorithm's text: the sizes measured, the best of them, the size that ends the
search, and the iteration at which it does, ten for each size."""


@pytest.mark.parametrize(("step", "reach", "fastest", "sizes", "best", "ends", "iteration"), BY_HAND)
def test_the_sizes_of_algorithm_1_by_hand(
    step: int, reach: int, fastest: int, sizes: list[int], best: int, ends: int, iteration: int
) -> None:
    found = search_size(valley(fastest), step=step, reach=reach)
    assert [trial.size for trial in found.trials] == sizes
    assert (found.size, found.unmeasured, found.stopped_at) == (best, ends, iteration)


@given(
    seconds=st.lists(st.integers(0, 4), min_size=1, max_size=40),
    step=st.integers(1, 12),
    reach=st.integers(1, 6),
    interval=st.integers(1, 12),
)
def test_the_search_is_algorithm_1_line_by_line(
    seconds: list[int], step: int, reach: int, interval: int
) -> None:
    def lapse(size: int) -> float:
        return seconds[size - 1] if size <= len(seconds) else seconds[0]

    found = search_size(lapse, step=step, reach=reach, interval=interval)
    measured = [trial.size for trial in found.trials]
    assert (measured, found.size, found.stopped_at) == printed(lapse, step, reach, interval)


def test_the_trials_of_a_search_say_when_and_what_was_best() -> None:
    found = search_size(valley(4), step=2, reach=2, interval=3)
    assert [tuple(trial) for trial in found.trials] == [
        (3, 1, 3, 1),
        (6, 2, 2, 2),
        (9, 4, 0, 4),
        (12, 6, 2, 4),
    ]
    assert (found.unmeasured, found.stopped_at) == (8, 15)
