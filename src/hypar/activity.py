"""What a long computation is doing, told to a listener that shows it; and how its interrupts and its garbage are handled."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LISTENER: ContextVar[Callable[[str], Any]] = ContextVar("listener", default=len)
"""Who is told what begins."""

INTERRUPTIBLE: ContextVar[bool] = ContextVar("interruptible", default=False)
"""Whether an interrupt ends a search with its best plan so far, instead of the whole computation."""

SELDOM = 200_000
"""New objects after which garbage in cycles is looked for: almost all objects of a plan stay until the end."""


def tell(what: str) -> None:
    """Tell the listener what begins, as ``planning vgg16 by accpar``."""
    LISTENER.get()(what)


@contextmanager
def holding(variable: ContextVar[Any], value: Any) -> Iterator[None]:
    """Give a variable another value inside."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


@contextmanager
def collecting_seldom() -> Iterator[None]:
    """Look for garbage in cycles seldom inside."""
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], SELDOM * bool(before[0])))
    try:
        yield
    finally:
        gc.set_threshold(*before)
