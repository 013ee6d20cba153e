"""One clear line for what pydantic finds wrong in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from hypar.errors import InputError, suggestion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pydantic_core import ErrorDetails

Model = TypeVar("Model", bound=BaseModel)
Where = tuple[str | int, ...]


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
    try:
        return model.model_validate(data)
    except ValidationError as found:
        details = found.errors(include_url=False)
        first = next((item for item in details if item["type"] == "extra_forbidden"), details[0])
        known = (*also_allowed, *(field.alias or name for name, field in model.model_fields.items()))
        raise _translate(first, known, place, error) from None
    except RecursionError:
        raise error(place(()), "nested too deeply") from None


def _translate(
    item: ErrorDetails, known: tuple[str, ...], place: Callable[[Where], str], error: type[InputError]
) -> InputError:
    """The parts of a message from pydantic's details."""
    where, message = item["loc"], item["msg"].removeprefix("Value error, ")
    where = where[:-1] if where and where[-1] == "[key]" else where
    if item["type"] == "extra_forbidden":
        listed = ", ".join(known) if len(where) == 1 else ""
        return error(place(where), f"unknown key {where[-1]!r}", listed, suggestion(str(where[-1]), known))
    if item["type"] == "missing":
        return error(place(where), f"{where[-1]!r} is missing")
    if item["type"] == "value_error" and isinstance(item["input"], dict):
        return error(place(where), message)
    return error(place(where), f"found {item['input']!r:.60}", message.removeprefix("Input should be "))
