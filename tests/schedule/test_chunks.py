"""Chunks as plain numbers: the rule, the closed forms, the best of all groupings, and the search for a size."""

from __future__ import annotations

from functools import cache
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
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
from hypar.schedule.moves import PHASE
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


def deep(count: int = 156) -> StepTimes:
    """As a residual network has them: ever fewer weights and ever more work towards the input."""
    numbers = np.random.default_rng(0)
    grows = np.linspace(0.2, 2.0, count)
    rows = zip(numbers.random(count) / grows, numbers.random(count) * grows, strict=True)
    return times_of([(float(backward), float(sent)) for backward, sent in rows], 0.3)


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


@pytest.mark.parametrize("name", EXCHANGES)
@given(times=steps())
def test_the_typical_step_is_everything_one_after_another(name: str, times: StepTimes) -> None:
    sizes = (len(times.layers),)
    total = times.forward_s + times.ready[-1] + times.sent[-1] + times.sync_s
    assert run(lowered(times, sizes, name).tasks).makespan == pytest.approx(total, rel=1e-12)


@given(times=steps())
def test_on_a_serial_link_chunks_are_sent_whole_and_in_order(times: StepTimes) -> None:
    sizes = rule_sizes(len(times.layers), 1)
    step = lowered(times, sizes, "serial")
    timeline = run(step.tasks)
    sent = [index for index, move in enumerate(step.moves) if move and move.phase == PHASE]
    assert len(sent) == len(sizes)
    assert all(timeline.ends[a] <= timeline.starts[b] for a, b in pairwise(sent))


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


@pytest.mark.parametrize("name", EXCHANGES)
def test_the_best_of_a_deep_network_is_no_slower_than_the_rule_at_any_size(name: str) -> None:
    times, exchange = deep(), EXCHANGES[name]
    least = max(exchange.spans(times, best_sizes(times, exchange)))
    by_rule = [max(exchange.spans(times, rule_sizes(156, size))) for size in range(1, 157)]
    assert least <= min(by_rule)
    assert least < 0.99 * by_rule[0]


@pytest.mark.parametrize("name", EXCHANGES)
def test_the_best_of_a_deep_network_is_that_of_a_plain_table(name: str) -> None:
    """Least time by number of chunks and end, every pair of ends looked at."""
    times, exchange = deep(), EXCHANGES[name]
    assert max(exchange.spans(times, best_sizes(times, exchange))) == pytest.approx(
        plain(times, name), rel=1e-12
    )


def plain(times: StepTimes, name: str) -> float:
    """The textbook's table: each number of chunks, each end, from each start."""
    ready, sent, sync = np.array(times.ready), np.array(times.sent), times.sync_s
    count = len(times.layers)
    alone = np.subtract.outer(sent, sent).T
    later = np.triu(np.ones((count + 1, count + 1), dtype=bool), 1)
    reached = np.full(count + 1, np.inf)
    reached[0], least = 0.0, np.inf
    for number in range(1, count + 1):
        if name == "independent":
            ends = np.maximum(reached[:, None], ready + number * sync + alone)
        else:
            ends = np.maximum(reached[:, None], ready) + sync + alone
        reached = np.where(later, ends, np.inf).min(axis=0)
        least = min(least, float(reached[-1]))
    return least


@pytest.mark.parametrize("name", EXCHANGES)
def test_nothing_takes_any_time(name: str) -> None:
    assert best_sizes(times_of([(0.0, 0.0)] * 5, 0.0), EXCHANGES[name]) == (5,)


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


def dip(best: int) -> Callable[[int], float]:
    """Times that are the same for all sizes but one, which is faster."""
    return lambda size: float(size != best)


ONE_TO_TEN = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
ONE_TO_FIFTEEN = [*ONE_TO_TEN, 11, 12, 13, 14, 15]
BY_HAND = [
    # Step 3: 1, 2, 3, 6, 9, .. With range 2 the end is at 3 * 2 = 6 past the best.
    # Size 2 is best: 9 >= 2 + 6 ends it.
    (3, 2, valley(2), [1, 2, 3, 6], 2, 9, 50),
    # Size 7 is never tried. Of 3 and 6, 4 and 1 away, 6 is best, and 9, 2 away, is not; 12 >= 6 + 6 ends it.
    (3, 2, valley(7), [1, 2, 3, 6, 9], 6, 12, 60),
    # Size 20 is never tried. Each size up to 18 is nearer than the one before; 21 is 1 away against 2, so the best;
    # 24 is 4 away and 24 < 21 + 6; 27 >= 21 + 6 ends it.
    (3, 2, valley(20), [1, 2, 3, 6, 9, 12, 15, 18, 21, 24], 21, 27, 110),
    # Step 5: 1 to 5, 10, 15, .. With range 5 the end is at 25 past the best.
    # 25 < 2 + 25 is measured, 30 >= 27 ends it.
    (5, 5, valley(2), [1, 2, 3, 4, 5, 10, 15, 20, 25], 2, 30, 100),
    # Size 7 is never tried: 5 is 2 away, 10 is 3 away, so 5 is best. 30 >= 5 + 25 ends it.
    (5, 5, valley(7), [1, 2, 3, 4, 5, 10, 15, 20, 25], 5, 30, 100),
    # 45 >= 20 + 25 ends it.
    (5, 5, valley(20), [1, 2, 3, 4, 5, 10, 15, 20, 25, 30, 35, 40], 20, 45, 130),
    # Step 10: 1 to 10, 20, 30, .. With range 5 the end is at 50 past the best: 60 >= 52, 60 >= 57, 70 >= 70.
    (10, 5, valley(2), [*ONE_TO_TEN, 20, 30, 40, 50], 2, 60, 150),
    (10, 5, valley(7), [*ONE_TO_TEN, 20, 30, 40, 50], 7, 60, 150),
    (10, 5, valley(20), [*ONE_TO_TEN, 20, 30, 40, 50, 60], 20, 70, 160),
    # The paper's own case, section 5.3: best at iteration 90, six more, stops at iteration 150. 50 < 59, 60 >= 59.
    (10, 5, valley(9), [*ONE_TO_TEN, 20, 30, 40, 50], 9, 60, 150),
    # Step 15: 1 to 15, 30, 45, .. With range 5 the end is at 75 past the best: 75 < 77 and 90 >= 77, 90 >= 82.
    (15, 5, valley(2), [*ONE_TO_FIFTEEN, 30, 45, 60, 75], 2, 90, 200),
    (15, 5, valley(7), [*ONE_TO_FIFTEEN, 30, 45, 60, 75], 7, 90, 200),
    # Size 20 is never tried: 15 is 5 away, 30 is 10 away, so 15 is best. 90 >= 15 + 75 ends it.
    (15, 5, valley(20), [*ONE_TO_FIFTEEN, 30, 45, 60, 75], 15, 90, 200),
    # All sizes tried are as fast as the first, which no other replaces: 9 >= 1 + 6, 30 >= 1 + 25.
    (3, 2, dip(20), [1, 2, 3, 6], 1, 9, 50),
    (5, 5, dip(7), [1, 2, 3, 4, 5, 10, 15, 20, 25], 1, 30, 100),
    # One size is faster: 7 with 60 >= 57, 20 with 45 >= 45.
    (10, 5, dip(7), [*ONE_TO_TEN, 20, 30, 40, 50], 7, 60, 150),
    (5, 5, dip(20), [1, 2, 3, 4, 5, 10, 15, 20, 25, 30, 35, 40], 20, 45, 130),
]
"""Step, range, times; by hand from the algorithm's text: the sizes measured, the best of them, the size that ends the
search, and the iteration at which it does, ten for each size."""


@pytest.mark.parametrize(("step", "reach", "lapse", "sizes", "best", "ends", "iteration"), BY_HAND)
def test_the_sizes_of_algorithm_1_by_hand(
    step: int,
    reach: int,
    lapse: Callable[[int], float],
    sizes: list[int],
    best: int,
    ends: int,
    iteration: int,
) -> None:
    asked: list[int] = []

    def measure(size: int) -> float:
        asked.append(size)
        return lapse(size)

    found = search_size(measure, step=step, reach=reach)
    assert asked == sizes == [trial.size for trial in found.trials]
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


def test_a_size_beyond_all_layers_leaves_every_layer_single() -> None:
    assert rule_sizes(4, 4) == rule_sizes(4, 5) == rule_sizes(4, 900) == (1, 1, 1, 1)


def test_short_in_a_prompt() -> None:
    assert repr(times_of([(1.0, 2.0), (3.0, 4.0)], 0)) == "<StepTimes of 2 layers, backward 4 s>"
