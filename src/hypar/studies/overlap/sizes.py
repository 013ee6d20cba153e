"""Sizes of the chunks that a request names."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from hypar.errors import OptionError, shown
from hypar.schedule.chunks.best import best_sizes
from hypar.schedule.chunks.sizes import SizeSearch, checked_size, rule_sizes, search_size
from hypar.schedule.data_parallel import lower_chunks
from hypar.timeline import run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.schedule.chunks.exchanges import Exchange, Sizes
    from hypar.schedule.chunks.times import StepTimes

MOST_ASKED = 20_000
"""The largest step, range or interval of a search for a size: no network has more layers."""

MANNERS = ("best", "layers", "none", "search")
"""The names of chunks; all others are sizes."""


def search_settings(chunks: str | int, asked: Mapping[str, int | None]) -> dict[str, int]:
    """Return the settings of the search for a size; refuse them without a search."""
    given = {name: value for name, value in asked.items() if value is not None}
    for name, value in given.items():
        option = f"search-{name.replace('reach', 'range')}"
        if chunks != "search":
            raise OptionError(option, f"given with chunks {shown(chunks)}", "with chunks 'search'")
        if type(value) is not int or not 1 <= value <= MOST_ASKED:
            raise OptionError(option, f"found {shown(value)}", f"a whole number from 1 to {MOST_ASKED:,}")
    return given


def chosen_sizes(
    times: StepTimes, exchange: Exchange, chunks: str | int, settings: Mapping[str, int]
) -> tuple[Sizes, SizeSearch | None]:
    """Return the sizes of the chunks asked for, and the search that found them.

    Raises:
        OptionError: there are no such chunks.
    """
    count = len(times.layers)
    if chunks == "best":
        return best_sizes(times, exchange), None
    if chunks == "none":
        return (count,), None
    if chunks == "search":
        return _searched(times, exchange, settings)
    return rule_sizes(count, 1 if chunks == "layers" else checked_size(chunks, count, MANNERS)), None


def _searched(times: StepTimes, exchange: Exchange, settings: Mapping[str, int]) -> tuple[Sizes, SizeSearch]:
    """Search for a size; sizes from the number of layers on give the chunks of size 1, and are timed once."""
    count = len(times.layers)

    @cache
    def timed(size: int) -> float:
        return step_s(times, rule_sizes(count, size), exchange)

    search = search_size(lambda size: timed(size if size < count else 1), **settings)
    return rule_sizes(count, search.size), search


def step_s(times: StepTimes, sizes: Sizes, exchange: Exchange) -> float:
    """Return the seconds of a step."""
    return run(lower_chunks(times, sizes, exchange).tasks).makespan
