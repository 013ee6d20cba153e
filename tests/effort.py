"""How many examples random tests try: few in the quick run, all of them where slow tests run as well."""

import re
from collections.abc import Iterable, Mapping
from itertools import product

import pytest
from _pytest.mark import ParameterSet
from hypothesis import settings

from hypar.registry import data_file, data_names

LONG, SHORT = 100, 5
"""Examples of a test that names no number, in the long run and in the quick one."""


def examples(count: int, short: int | None = None) -> int:
    """Return the number of examples in this run; in the quick one by the ratio of both runs unless given."""
    if settings().max_examples == LONG:
        return count
    return max(2, count * SHORT // LONG) if short is None else short


_FILES = {name: data_file("models", name) for name in data_names("models")}
_TEXTS = {name: file.read_text(encoding="utf-8") for name, file in _FILES.items() if file.stem == name}

NETWORKS = tuple(name for name, text in _TEXTS.items() if not re.search("^dims:", text, re.MULTILINE))
"""All networks on images, each under one name; those that name their dims have tests of their own."""

TRANSFORMERS = tuple(name for name, text in _TEXTS.items() if re.search("^dims:", text, re.MULTILINE))
"""The networks that name their dims."""

TWINS = ("vgg-c", "vgg-f", "vgg11", "vgg13", "vgg19", "resnet34", "resnet101", "resnet152")
"""Networks of the kind of another, with more or fewer layers; the quick run tries the other one alone."""


def late(values: Iterable[object], *slow: object) -> list[object | ParameterSet]:
    """Return parameters, of which some take long and are left to the slow run."""
    return [pytest.param(value, marks=pytest.mark.slow) if value in slow else value for value in values]


def crossed(values: Mapping[str, Iterable[object]]) -> pytest.MarkDecorator:
    """Parametrise a test by all combinations of values; the quick run tries as many as have each value once.

    Args:
        values: the values of each parameter, or of several whose names are separated by commas. Those that ``late``
            marks are in no combination of the quick run.
    """
    columns = [[_parameter(name, value) for value in column] for name, column in values.items()]
    early = [[place for place, value in enumerate(column) if not value.marks] for column in columns]
    quick = {tuple(places[turn % len(places)] for places in early) for turn in range(max(map(len, early)))}
    cases = []
    for places in product(*(range(len(column)) for column in columns)):
        chosen = [column[place] for column, place in zip(columns, places, strict=True)]
        cases.append(
            pytest.param(
                *(part for value in chosen for part in value.values),
                marks=() if places in quick else pytest.mark.slow,
                id="-".join(str(value.id) for value in chosen),
            )
        )
    return pytest.mark.parametrize(",".join(values), cases)


def _parameter(name: str, value: object) -> ParameterSet:
    """Return a parameter, whose id is its text if it has none."""
    if isinstance(value, ParameterSet) and value.id:
        return value
    given = value if isinstance(value, ParameterSet) else ParameterSet.param(*_parts(name, value))
    return ParameterSet.param(*given.values, marks=given.marks, id="-".join(map(_text, given.values)))


def _text(value: object) -> str:
    """Return a value's text, which is the same in every process."""
    return re.sub(r"<function (\w+) at \w+>", r"\1", str(value))


def _parts(name: str, value: object) -> tuple[object, ...]:
    return value if "," in name and isinstance(value, tuple) else (value,)
