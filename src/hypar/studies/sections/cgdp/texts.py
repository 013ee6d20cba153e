"""Cells of the page's tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hypar.schedule.chunks.exchanges import Sizes


def chunks(sizes: Sizes) -> str:
    """Return chunks as the paper writes them.

    Example:
        >>> chunks((2, 1))
        '(3, 2), (1)'
    """
    left, texts = sum(sizes), []
    for size in sizes:
        texts.append(f"({', '.join(str(left - place) for place in range(size))})")
        left -= size
    return ", ".join(texts)


def ms(seconds: float, digits: int = 1) -> str:
    """Return milliseconds."""
    return f"{seconds * 1e3:,.{digits}f}"


def yes(holds: bool) -> str:
    """Return whether something holds."""
    return "yes" if holds else "no"


def either(number: float | None, digits: int = 1) -> str:
    """Return a published number, or nothing where none is published."""
    return "" if number is None else f"{number:,.{digits}f}"
