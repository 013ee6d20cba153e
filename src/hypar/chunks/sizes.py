"""Chunks of one size, and the search for it. Source: CGDP, its rule and Algorithm 1.

``search_size`` is its Algorithm 1, which changes the size while a network trains and keeps the fastest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from hypar.errors import OptionError
from hypar.quoting import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hypar.chunks.exchanges import Sizes


def rule_sizes(layers: int, size: int) -> Sizes:
    """Chunks of a size from the last layer down, then single layers down to the first.

    The layers that are left over are single, and where none are left over the last chunk's are: gradients that
    come late should be small.

    Args:
        layers: how many there are.
        size: layers of a chunk, from 1 to all.

    Example:
        >>> rule_sizes(6, 3), rule_sizes(7, 3)
        ((3, 1, 1, 1), (3, 3, 1))
    """
    whole = layers // size - (layers % size == 0)
    return (size,) * whole + (1,) * (layers - whole * size)


def checked_size(chunks: str | int, most: int, names: Sequence[str]) -> int:
    """A size that was asked for, from the command line too.

    Args:
        chunks: what was asked for.
        most: the largest size.
        names: what else could have been asked for.

    Raises:
        OptionError: it is none.
    """
    digits = isinstance(chunks, str) and chunks.isdecimal() and len(chunks) < 9
    size = int(chunks) if digits or type(chunks) is int else 0
    if not 1 <= size <= most:
        raise OptionError("chunks", f"found {shown(chunks)}", f"{', '.join(names)}, or 1 to {most}")
    return size


def groupings(layers: int) -> Iterator[Sizes]:
    """Every way to cut a sequence of layers into chunks, ``2 ** (layers - 1)`` of them, the single chunk first.

    Example:
        >>> list(groupings(3))
        [(3,), (2, 1), (1, 2), (1, 1, 1)]
    """
    for cuts in product((False, True), repeat=layers - 1):
        ends = [end for end, cut in enumerate((*cuts, True), 1) if cut]
        yield tuple(end - start for start, end in zip([0, *ends], ends, strict=False))


class Trial(NamedTuple):
    """One size that was tried.

    Attributes:
        iteration: of the training, when it was measured.
        size: layers of a chunk.
        seconds: of an iteration.
        best: the fastest size so far.
    """

    iteration: int
    size: int
    seconds: float
    best: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeSearch:
    """How a size was found.

    Attributes:
        trials: the sizes tried, one after another.
        stopped_at: the iteration at which the search ended.
    """

    trials: tuple[Trial, ...]
    stopped_at: int

    @property
    def size(self) -> int:
        """The size found."""
        return self.trials[-1].best


def search_size(
    measure: Callable[[int], float], most: int, *, step: int = 10, reach: int = 5, interval: int = 1
) -> SizeSearch:
    """Try larger and larger chunks until none of several sizes past the best was faster.

    Every ``step`` iterations the next size is due. First comes the test: the search stops where that size is more than
    ``reach`` past the best so far, or larger than the network. Else it is measured, and is the best if it is strictly
    faster.

    Args:
        measure: seconds of an iteration with chunks of a size.
        most: the largest size.
        step: iterations from one size to the next.
        reach: how far past the best size to look, the algorithm's range.
        interval: by how much a size is larger than the one before.

    Example:
        >>> found = search_size(lambda size: abs(size - 9), 100)
        >>> found.size, found.stopped_at
        (9, 150)
    """
    trials: list[Trial] = []
    size = best = 1
    least, iteration = math.inf, step
    while size <= min(best + reach, most):
        seconds = measure(size)
        if seconds < least:
            least, best = seconds, size
        trials.append(Trial(iteration, size, seconds, best))
        size, iteration = size + interval, iteration + step
    return SizeSearch(trials=tuple(trials), stopped_at=iteration)
