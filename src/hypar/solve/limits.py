"""Limits of a search: the time and the memory after which it answers with what it has.

Work and tables are counted in entries before they are computed, so that the same search takes the same way on every
machine. The clock is asked as well, for machines that are slower than was counted on.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, NamedTuple

ENTRIES_PER_S = 2**27
"""Table entries that a second is counted for."""

ENTRY_BYTES = 8
"""Bytes of a table entry."""

DEFAULT_S = 60.0
DEFAULT_BYTES = 10**9


class Limits(NamedTuple):
    """The seconds that a search may take, and the bytes of its tables."""

    seconds: float = DEFAULT_S
    bytes: float = DEFAULT_BYTES


UNLIMITED = Limits(math.inf, math.inf)
"""No limits: a search that was not cut short takes the same way again."""


Cut = Literal["time", "interrupt"]
"""What cut a search short: the clock, or an interrupt."""


@dataclass(slots=True)
class Budget:
    """The limits of a search, and whether one kept it from something."""

    limits: Limits = UNLIMITED
    struck: bool = False

    def allows(self, *, stored: float = 0, work: float = 0) -> bool:
        """Return whether some entries may be held, and others computed; a refusal is remembered."""
        found = work <= self.limits.seconds * ENTRIES_PER_S and stored * ENTRY_BYTES <= self.limits.bytes
        self.struck = self.struck or not found
        return found


class OutOfTime(Exception):  # noqa: N818 (no error: the search answers with what it has)
    """The seconds of work of a search are over."""


_END_S: ContextVar[float] = ContextVar("end", default=math.inf)


@contextmanager
def timed(seconds: float) -> Iterator[None]:
    """Let ``checkpoint`` end what is inside after some seconds of work, or with what is around."""
    token = _END_S.set(min(_END_S.get(), time.process_time() + seconds))
    try:
        yield
    finally:
        _END_S.reset(token)


def checkpoint() -> None:
    """End a search whose time is over.

    Raises:
        OutOfTime: it is.

    Examples:
        >>> checkpoint()
        >>> with timed(-1):
        ...     checkpoint()
        Traceback (most recent call last):
        hypar.solve.limits.OutOfTime
    """
    if time.process_time() > _END_S.get():
        raise OutOfTime
