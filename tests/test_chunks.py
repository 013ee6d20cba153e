"""Chunks as plain numbers: the rule, the closed forms, the best of all groupings, and the search for a size."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypar.chunks import (
    EXCHANGES,
    LayerTimes,
    StepTimes,
    best_sizes,
    exchange_named,
    groupings,
    rule_sizes,
    search_size,
    typical,
)
from hypar.errors import UnknownNameError
from hypar.schedule.overlap import lower_chunks
from hypar.timeline import run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.chunks import Sizes

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


def test_an_unknown_exchange() -> None:
    with pytest.raises(
        UnknownNameError, match=r"^no exchange 'seril'; allowed: independent, serial; did you"
    ):
        exchange_named("seril")


# Closed forms


def test_independent_by_hand() -> None:
    """Layers 3, 2, 1 of 10 s each; a synchronisation of 1 s stalls what comes behind it."""
    times = times_of([(10, 2), (10, 3), (10, 40)], 1)
    spans = EXCHANGES["independent"].spans
    assert spans(times, (1, 1, 1)) == [10 + 1 + 40, 20 + 2 + 3, 30 + 3 + 2]
    assert spans(times, (1, 2)) == [51, 30 + 2 + 5]
    assert typical(times, EXCHANGES["independent"])[0].sync_s == 0


def test_serial_by_hand() -> None:
    """The link is busy with layer 3 until 51 s, and then with the two others."""
    times = times_of([(10, 2), (10, 3), (10, 40)], 1)
    spans = EXCHANGES["serial"].spans
    assert spans(times, (1, 1, 1)) == [10 + 3 + 45, 20 + 2 + 5, 30 + 1 + 2]
    assert spans(times, (3,)) == [30 + 1 + 45]
    assert typical(times, EXCHANGES["serial"]) == (times, (3,))


@pytest.mark.parametrize("name", EXCHANGES)
@given(times=steps(), numbers=st.data())
def test_the_engine_takes_as_long_as_the_closed_form(
    name: str, times: StepTimes, numbers: st.DataObject
) -> None:
    exchange = EXCHANGES[name]
    cuts = numbers.draw(st.integers(0, 2 ** (len(times.layers) - 1) - 1))
    sizes = next(found for number, found in enumerate(groupings(len(times.layers))) if number == cuts)
    closed = times.forward_s + max(exchange.spans(times, sizes))
    assert run(lower_chunks(times, sizes, exchange).tasks).makespan == pytest.approx(closed, rel=1e-12)


@pytest.mark.parametrize("name", EXCHANGES)
@given(times=steps())
def test_the_typical_step_is_everything_one_after_another(name: str, times: StepTimes) -> None:
    step, sizes = typical(times, EXCHANGES[name])
    total = times.forward_s + times.ready[-1] + times.sent[-1] + times.sync_s * (name == "serial")
    assert run(lower_chunks(step, sizes, EXCHANGES[name]).tasks).makespan == pytest.approx(total, rel=1e-12)


@given(times=steps())
def test_on_a_serial_link_chunks_are_sent_whole_and_in_order(times: StepTimes) -> None:
    sizes = rule_sizes(len(times.layers), 1)
    step = lower_chunks(times, sizes, EXCHANGES["serial"])
    timeline = run(step.tasks)
    sent = [index for chunk in step.chunks for index in chunk.sent]
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


def test_the_search_stops_past_its_range_and_before_it_measures() -> None:
    asked: list[int] = []

    def measure(size: int) -> float:
        asked.append(size)
        return abs(size - 9)

    found = search_size(measure, 1000)
    assert asked == list(range(1, 15))
    assert (found.size, found.stopped_at) == (9, 150)
    assert [trial.iteration for trial in found.trials] == list(range(10, 150, 10))
    assert [trial.best for trial in found.trials] == [*range(1, 10), 9, 9, 9, 9, 9]


def test_a_size_as_fast_does_not_replace_the_best() -> None:
    found = search_size(lambda _size: 1.0, 1000, step=3, reach=2)
    assert (found.size, found.stopped_at, len(found.trials)) == (1, 12, 3)


def test_the_search_ends_with_the_largest_size() -> None:
    found = search_size(lambda size: -size, 7, step=2, interval=2)
    assert [trial.size for trial in found.trials] == [1, 3, 5, 7]
    assert (found.size, found.stopped_at) == (7, 10)


def test_short_in_a_prompt() -> None:
    assert repr(times_of([(1.0, 2.0), (3.0, 4.0)], 0)) == "<StepTimes of 2 layers, backward 4 s>"
