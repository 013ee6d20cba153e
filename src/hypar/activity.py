"""What a long computation is doing, told to a listener that shows it; and how its interrupts and its garbage are handled."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LISTENER: ContextVar[Callable[[str], None] | None] = ContextVar("listener", default=None)
_INTERRUPTIBLE: ContextVar[bool] = ContextVar("interruptible", default=False)

SELDOM = 200_000
"""New objects after which garbage in cycles is looked for: almost all objects of a plan stay until the end."""


def tell(what: str) -> None:
    """Tell the listener, if there is one, what begins, as ``planning vgg16 by accpar``."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(what)


@contextmanager
def listening(listener: Callable[[str], None]) -> Iterator[None]:
    """Tell a listener everything that begins inside.

    Examples:
        >>> told = []
        >>> with listening(told.append):
        ...     tell("planning vgg16")
        >>> tell("planning resnet50")
        >>> told
        ['planning vgg16']
    """
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def interruptible() -> bool:
    """Return whether an interrupt ends a search with its best plan so far, instead of the whole computation."""
    return _INTERRUPTIBLE.get()


@contextmanager
def keeping_interrupted() -> Iterator[None]:
    """Let an interrupt end a search inside with its best plan so far."""
    token = _INTERRUPTIBLE.set(True)
    try:
        yield
    finally:
        _INTERRUPTIBLE.reset(token)


@contextmanager
def collecting_seldom() -> Iterator[None]:
    """Look for garbage in cycles seldom inside."""
    first, *others = gc.get_threshold()
    if 0 < first < SELDOM:
        gc.set_threshold(SELDOM, *others)
    try:
        yield
    finally:
        gc.set_threshold(first, *others)
