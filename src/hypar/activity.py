"""What a long computation is doing and how far it is, told to listeners that show it; and how its interrupts are handled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

LISTENER: ContextVar[Callable[[str], Any]] = ContextVar("listener", default=len)
"""Who is told what begins."""

COUNTER: ContextVar[Callable[[int, int], Any]] = ContextVar("counter", default=max)
"""Who is told how many steps are done, and of how many; ``max``, who does nothing, where what counts them is a step itself."""

INTERRUPTIBLE: ContextVar[bool] = ContextVar("interruptible", default=False)
"""Whether an interrupt ends a search with its best plan so far, instead of the whole computation."""


def tell(what: str) -> None:
    """Tell the listener what begins, as ``planning vgg16 by accpar``."""
    LISTENER.get()(what)


def count(done: int, of: int) -> None:
    """Tell the counter how many steps are done, and their number."""
    COUNTER.get()(done, of)


@contextmanager
def holding(variable: ContextVar[Any], value: Any) -> Iterator[None]:
    """Give a variable another value inside."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
