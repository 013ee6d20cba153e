"""Chunks of one size, and the search for it. Source: CGDP, its rule and Algorithm 1.

``search_size`` is its Algorithm 1, which changes the size while a network trains and keeps the fastest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from hypar.errors import OptionError, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hypar.schedule.chunks.exchanges import Sizes


def rule_sizes(layers: int, size: int) -> Sizes:
    """Return chunks of one size from the last layer down, then single layers down to the first.

    The layers that are left over are single; if none are left over, the last chunk is divided into single layers, as
    late gradients should be small.

    Args:
        layers: the number of layers.
        size: the number of layers of a chunk; ``layers`` or more leave every layer single.

    Examples:
        >>> rule_sizes(6, 3), rule_sizes(7, 3)
        ((3, 1, 1, 1), (3, 3, 1))
    """
    whole = layers // size - (layers % size == 0)
    return (size,) * whole + (1,) * (layers - whole * size)


def checked_size(chunks: str | int, most: int, names: Sequence[str]) -> int:
    """Check a requested size of chunks, which may be text from the command line.

    Args:
        chunks: the requested size.
        most: the largest size.
        names: the other requests that are allowed.

    Raises:
        OptionError: it is not a size in this range.
    """
    digits = isinstance(chunks, str) and chunks.isdecimal() and len(chunks) < 9
    size = int(chunks) if digits or type(chunks) is int else 0
    if not 1 <= size <= most:
        raise OptionError("chunks", f"found {shown(chunks)}", f"{', '.join(names)}, or 1 to {most}")
    return size


def groupings(layers: int) -> Iterator[Sizes]:
    """Yield all ``2 ** (layers - 1)`` groupings of a sequence of layers into chunks, the single chunk first.

    Examples:
        >>> list(groupings(3))
        [(3,), (2, 1), (1, 2), (1, 1, 1)]
    """
    for cuts in product((False, True), repeat=layers - 1):
        ends = [end for end, cut in enumerate((*cuts, True), 1) if cut]
        yield tuple(end - start for start, end in zip([0, *ends], ends, strict=False))


class Trial(NamedTuple):
    """One size that was measured.

    Attributes:
        iteration: the iteration of the training at whose end it was measured.
        size: the number of layers of a chunk.
        seconds: the time of an iteration.
        best: the fastest size so far.
    """

    iteration: int
    size: int
    seconds: float
    best: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeSearch:
    """The course of a search for a size.

    Attributes:
        trials: the sizes measured, one after another.
        stopped_at: the iteration at which the search ended.
        unmeasured: the size of the last iterations, which ended the search instead of being measured.
    """

    trials: tuple[Trial, ...]
    stopped_at: int
    unmeasured: int

    @property
    def size(self) -> int:
        """Return the size found."""
        return self.trials[-1].best


def search_size(
    measure: Callable[[int], float], *, step: int = 10, reach: int = 5, interval: int = 10
) -> SizeSearch:
    """Try larger and larger chunks until several steps past the best size have brought no faster one.

    The sizes are 1, 2, .. ``step``, ``2 step``, ``3 step``, ..; the network trains ``interval`` iterations with each.
    A size of ``best + step * reach`` or more ends the search and is not measured. Any other size is measured, and
    becomes the best if it is strictly faster. Source: CGDP, Algorithm 1, lines 7 to 25.

    The training is assumed to last as long as the search, which ends unless times fall for ever. As printed, the
    algorithm ignores the number of layers; ``rule_sizes`` defines sizes beyond it.

    Args:
        measure: function from a size to the seconds of an iteration with chunks of it.
        step: the size up to which every size is tried, and the distance of those beyond it.
        reach: the number of steps past the best size at which the search ends, the algorithm's range.
        interval: the number of iterations with each size.

    Examples:
        >>> found = search_size(lambda size: abs(size - 9))
        >>> [trial.size for trial in found.trials]
        [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30, 40, 50]
        >>> found.size, found.unmeasured, found.stopped_at
        (9, 60, 150)
    """
    trials: list[Trial] = []
    size = best = 1
    least, iteration = math.inf, interval
    while size < best + step * reach:
        seconds = measure(size)
        if seconds < least:
            least, best = seconds, size
        trials.append(Trial(iteration, size, seconds, best))
        size += 1 if size < step else step
        iteration += interval
    return SizeSearch(trials=tuple(trials), stopped_at=iteration, unmeasured=size)
