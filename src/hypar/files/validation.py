"""One clear line for what pydantic finds wrong in a file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from hypar.errors import InputError, Where, shown, suggestion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pydantic_core import ErrorDetails

Model = TypeVar("Model", bound=BaseModel)

MOST_ENTRIES = 50_000
"""Entries of one list or mapping; a network has at most 20,000 layers."""

MOST_CHARACTERS = 100_000
"""Characters of one text."""

_WORDS = {
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "float_type": "a number",
    "finite_number": "a finite number",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "int_type": "a whole number",
    "less_than_equal": "at most {le:,}",
    "list_type": "a list",
    "model_type": "a mapping",
    "string_pattern_mismatch": "a name of letters, digits, _ and -, at most 100 of them",
    "string_too_long": "at most {max_length} characters",
    "string_type": "a text",
    "too_long": "at most {max_length}",
    "too_short": "at least {min_length}",
}
"""What pydantic's types of errors allow, where its own words are about Python."""


def validated(
    model: type[Model],
    data: Any,
    *,
    place: Callable[[Where], str],
    error: type[InputError],
    also_allowed: Iterable[str] = (),
) -> Model:
    """Judge plain data by a pydantic model.

    Args:
        model: the model.
        data: what a file says.
        place: turns a place below ``data`` into ``file:line: field``.
        error: the class to raise.
        also_allowed: keys that the caller has taken out already, to list beside the model's own.

    Raises:
        InputError: of the class ``error``, for the first thing wrong.
    """
    for large, size, most in _too_large(data, ()):
        raise error(place(large), size, most)
    try:
        return model.model_validate(data)
    except ValidationError as found:
        details = found.errors(include_url=False)
    for item in details:
        if item["type"] == "extra_forbidden":
            raise _unknown_key(model, item["loc"], place, error, also_allowed)
    for item in details:
        if item["type"] == "missing":
            raise error(place(item["loc"]), f"{item['loc'][-1]!r} is missing")
    first, where = details[0], _written(data, details[0]["loc"])
    if first["type"] == "value_error" and not where:
        raise error(place(where), _allowed(first))
    # A union says for each of its types why it is not that.
    allowed = dict.fromkeys(_allowed(item) for item in details if _written(data, item["loc"]) == where)
    words = re.findall("'([^']*)'", first.get("ctx", {}).get("expected", ""))
    hint = suggestion(first["input"], words) if isinstance(first["input"], str) else ""
    raise error(place(where), f"found {shown(first['input'])}", " or ".join(allowed), hint)


def _too_large(data: Any, where: Where) -> Iterator[tuple[Where, str, str]]:
    """Yield the place of each list, mapping or text that is too large, what was found and what is allowed.

    It is told before pydantic judges the data: that makes an error, with all that belongs to it, for each entry.
    """
    if isinstance(data, str):
        if len(data) > MOST_CHARACTERS:
            yield where, f"found {len(data):,} characters", f"at most {MOST_CHARACTERS:,}"
    elif isinstance(data, dict | list):
        if len(data) > MOST_ENTRIES:
            yield where, f"found {len(data):,} entries", f"at most {MOST_ENTRIES:,}"
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            if isinstance(value, str | dict | list):
                yield from _too_large(value, (*where, key))
            if isinstance(key, str) and len(key) > MOST_CHARACTERS:
                yield from _too_large(key, (*where, key))


def _unknown_key(
    model: type[BaseModel],
    where: Where,
    place: Callable[[Where], str],
    error: type[InputError],
    also_allowed: Iterable[str],
) -> InputError:
    """The error for a key that the mapping around it does not have."""
    key = str(where[-1])
    known = (*(also_allowed if len(where) == 1 else ()), *_keys(_model_around(model, where)))
    return error(place(where), f"unknown key {shown(key)}", ", ".join(known), suggestion(key, known))


def _written(data: Any, where: Where) -> Where:
    """The part of a place that the file has: pydantic adds names of types, and a pair's index to one number."""
    for depth, part in enumerate(where):
        inside = isinstance(data, dict) and part in data
        if not inside and not (isinstance(data, list) and isinstance(part, int) and part < len(data)):
            return where[:depth]
        data = data[part]
    return where


def _allowed(item: ErrorDetails) -> str:
    """What may stand in a place."""
    own = _WORDS.get(item["type"])
    message = item["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    limits = {key: _plain(value) for key, value in item.get("ctx", {}).items()}
    return own.format_map(limits) if own else message


def _plain(limit: Any) -> Any:
    """A limit without a needless ``.0``."""
    whole = isinstance(limit, float) and limit.is_integer() and abs(limit) < 1e15
    return int(limit) if whole else limit


def _keys(model: type[BaseModel]) -> tuple[str, ...]:
    """What a mapping that a model judges may say."""
    return tuple(field.alias or name for name, field in model.model_fields.items())


def _model_around(model: type[BaseModel], where: Where) -> type[BaseModel]:
    """The model that judges the mapping around a place."""
    for part in where[:-1]:
        named = (field for name, field in model.model_fields.items() if part in {name, field.alias})
        model = next((inner for field in named for inner in _models_in(field.annotation)), model)
    return model


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models that a type is made of."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)
