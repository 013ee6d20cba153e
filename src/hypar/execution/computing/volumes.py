"""Windows on volumes: the elements that each tap of a kernel reads."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.execution.taps import Reading


def taps(readings: Sequence[Reading], before: int) -> Iterator[tuple[Any, Any, Any]]:
    """Yield each tap of a kernel with the outputs that it is for and the elements that it reads, those without any left out.

    Args:
        readings: what a piece reads along depth, height and width.
        before: axes of the arrays before these.
    """
    along = [own.pairs for own in readings]
    for tap in product(*(range(len(pairs)) for pairs in along)):
        pairs = [own[number] for own, number in zip(along, tap, strict=True)]
        made, read = ([_indices(one[side]) for one in pairs] for side in (0, 1))
        if all(map(len, made)):
            every: tuple[Any, ...] = (slice(None),) * before
            yield tap, (*every, *np.ix_(*made)), (*every, *np.ix_(*read))


def _indices(selection: Any) -> Any:
    """Return the indices of a slice, or indices as they are."""
    if isinstance(selection, slice):
        return np.arange(selection.start, selection.stop, selection.step)
    return selection
