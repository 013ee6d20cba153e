"""How many examples random tests try: few in the quick run, all of them where slow tests run as well."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from hypar.registry import data_file, data_names

if TYPE_CHECKING:
    from collections.abc import Iterable

    from _pytest.mark import ParameterSet

LONG, SHORT = 100, 10
"""Examples of a test that names no number, in the long run and in the quick one."""


def examples(count: int, short: int | None = None) -> int:
    """Return the number of examples that a test tries in the run that is under way.

    Args:
        count: examples of the long run.
        short: examples of the quick run; by the ratio of the two runs if not given.
    """
    if settings().max_examples == LONG:
        return count
    return max(2, count * SHORT // LONG) if short is None else short


NETWORKS = tuple(
    name
    for name in data_names("models")
    if "same_as:" not in data_file("models", name).read_text(encoding="utf-8")
)
"""All networks, each under one name."""

TWINS = ("vgg-c", "vgg-f", "vgg11", "vgg13", "vgg19", "resnet34", "resnet101")
"""Networks of the kind of another, with more or fewer layers; the quick run tries the other one alone."""


def late(values: Iterable[object], *slow: str) -> list[object | ParameterSet]:
    """Return parameters, of which some take long and are left to the slow run."""
    return [pytest.param(value, marks=pytest.mark.slow) if value in slow else value for value in values]
