"""What a long computation is doing, told to a listener that shows it; and how its interrupts are handled."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LISTENER: ContextVar[Callable[[str], Any]] = ContextVar("listener", default=len)
"""Who is told what begins."""

INTERRUPTIBLE: ContextVar[bool] = ContextVar("interruptible", default=False)
"""Whether an interrupt ends a search with its best plan so far, instead of the whole computation."""


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
