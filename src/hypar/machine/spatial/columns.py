"""Sizes that are numbers or columns of numbers, by the same formulas."""

from __future__ import annotations

from typing import Any

import numpy as np


def entry(column: Any, place: int | None) -> Any:
    """Return the number at a place of a column, or a number itself."""
    return column[place].item() if isinstance(column, np.ndarray) else column


def smaller(one: Any, other: Any) -> Any:
    """Return the smaller of two numbers."""
    arrays = isinstance(one, np.ndarray) or isinstance(other, np.ndarray)
    return np.minimum(one, other) if arrays else min(one, other)


def larger(one: Any, other: Any) -> Any:
    """Return the larger of two numbers."""
    arrays = isinstance(one, np.ndarray) or isinstance(other, np.ndarray)
    return np.maximum(one, other) if arrays else max(one, other)


def parts(whole: Any, part: Any) -> Any:
    """Return the parts, of which the last may be smaller, that make up a whole."""
    arrays = isinstance(whole, np.ndarray) or isinstance(part, np.ndarray)
    return np.ceil(whole / part) if arrays else -(-whole // part)
