"""Formatting of the cells in the page's tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hypar.schedule.chunks.exchanges import Sizes


def chunks(sizes: Sizes) -> str:
    """Format chunks as the paper writes them.

    Examples:
        >>> chunks((2, 1))
        '(3, 2), (1)'
    """
    left, texts = sum(sizes), []
    for size in sizes:
        texts.append(f"({', '.join(str(left - place) for place in range(size))})")
        left -= size
    return ", ".join(texts)


def ms(seconds: float, digits: int = 1) -> str:
    """Format seconds as milliseconds."""
    return f"{seconds * 1e3:,.{digits}f}"


def yes(holds: bool) -> str:
    """Format a truth value as yes or no."""
    return "yes" if holds else "no"


def either(number: float | None, digits: int = 1) -> str:
    """Format a published number; empty if none is published."""
    return "" if number is None else f"{number:,.{digits}f}"
