"""Records, which pydantic judges, their quantities with units and sources, and their validation: a clear line for each error."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import islice
from typing import Annotated, Any, Generic, NamedTuple, Self, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails

from hypar.errors import InputError, Where, shown, suggestion
from hypar.units import parse_quantity

Model = TypeVar("Model", bound=BaseModel)
Value = TypeVar("Value")

MOST_ENTRIES, MOST_CHARACTERS, MOST_FAULTS = 50_000, 100_000, 20
"""The most entries of one list or mapping, as a network has at most 20,000 layers; characters of one text; faults named of a file."""

MOST = 1e30
"""Largest quantity in hypar's own units; its inverse is the least divisor."""


def only(fits: Callable[[Any], object], allowed: str, when: Callable[..., Any] = AfterValidator) -> Any:
    """Return the validator of values that fit, behind that of their type or before it, whose message says which are allowed."""

    def check(value: Any) -> Any:
        if not fits(value):
            raise ValueError(allowed)
        return value

    return when(check)


def one_of(names: Collection[str]) -> Any:
    """Return the validator of a text that is one of some names."""
    return only(names.__contains__, ", ".join(names))


class Record(BaseModel):
    """A part of a file: unknown keys are refused, and a text is not a number; its validator is built when it is first needed."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    def __dir__(self) -> list[str]:
        """Return the names of fields, properties and methods, without those of pydantic."""
        names = {*super().__dir__()} - {*dir(BaseModel)}
        return sorted(name for name in names if not name.startswith("_") and not name.endswith("_"))

    def to_data(self) -> dict[str, Any]:
        """Return it as plain data, without keys of absent entries."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other values in some fields; what was derived from them is derived again."""
        copied = super().model_copy(update=update, deep=deep)
        for name in [*copied.__dict__]:
            if isinstance(getattr(type(self), name, None), cached_property):
                del copied.__dict__[name]
        return copied


def quantity(kind: str) -> BeforeValidator:
    """Return the validator of a number with a unit of a kind, as ``seconds``, or of a plain number."""
    return BeforeValidator(partial(parse_quantity, kind=kind))


def _number(value: Any) -> Any:
    """Convert an exponent without a point, such as 1e-3, which YAML reads as a text."""
    return float(value) if isinstance(value, str) and _EXPONENT.fullmatch(value) else value


_EXPONENT = re.compile(r"[+-]?[0-9]+[eE][+-]?[0-9]{1,3}")
AsNumber = BeforeValidator(_number)
_SIZE, _AMOUNT = Field(gt=0, le=MOST), Field(ge=0, le=MOST)
_NOT_TINY = only(lambda number: number >= 1 / MOST, f"at least {1 / MOST:g}")

Bytes = Annotated[float, quantity("bytes"), _SIZE, _NOT_TINY]
BytesPerSecond = Annotated[float, quantity("bytes_per_s"), _SIZE, _NOT_TINY]
FlopPerSecond = Annotated[float, quantity("flop_per_s"), _SIZE, _NOT_TINY]
Hertz = Annotated[float, quantity("hertz"), _SIZE, _NOT_TINY]
Joules = Annotated[float, quantity("joules"), _AMOUNT]
Seconds = Annotated[float, quantity("seconds"), _AMOUNT]
Watts = Annotated[float, quantity("watts"), _AMOUNT]
Count = Annotated[int, Field(ge=1, le=2**20)]
Part = Annotated[float, AsNumber, Field(gt=0, le=1), _NOT_TINY]
Text = Annotated[str, Field(max_length=1000), only(str.strip, "a text that is not empty")]


class Sourced(Record, Generic[Value]):
    """A quantity in hypar's own unit, with paper and section, datasheet and page, or the reason for assuming it."""

    value: Value
    source: Text

    @model_validator(mode="before")
    @classmethod
    def _with_source(cls, given: Any) -> Any:
        if not isinstance(given, dict | Sourced):
            raise ValueError("a mapping with value and source")  # noqa: TRY004 (pydantic's own protocol)
        return given


def together(faults: Iterable[InputError]) -> InputError:
    """Return the first of several faults, with the others, each of which is a single one, in it."""
    first, *others = islice((one for fault in faults for one in (fault, *fault.others)), MOST_FAULTS)
    for one in others:
        one.others = ()
    first.others = tuple(others)
    return first


class Faults(list[InputError]):
    """The faults of one file, gathered in order so that all of them are named at once."""

    def __enter__(self) -> None:
        """Begin a part of the file, behind which the next goes on."""

    def __exit__(self, _kind: object, fault: BaseException | None, _trace: object) -> bool:
        if isinstance(fault, InputError):
            self.append(fault)
        return isinstance(fault, InputError)

    def check(self) -> None:
        """Raise the first fault, if any, with the others in it; of all ``MOST_FAULTS`` at most."""
        if self:
            raise together(self)


_WORDS = {
    "bool_type": "true or false", "int_type": "a whole number", "float_type": "a number", "finite_number": "a finite number",
    "string_type": "a text", "list_type": "a list", "dict_type": "a mapping", "model_type": "a mapping",
    "greater_than": "more than {gt}", "greater_than_equal": "at least {ge}", "less_than_equal": "at most {le:,}",
    "too_long": "at most {max_length}", "too_short": "at least {min_length}", "string_too_long": "at most {max_length} characters",
    "string_pattern_mismatch": "a name of letters, digits, _ and -, at most 100 of them",
}  # fmt: skip
"""Allowed values by pydantic's type of error, in place of its messages about Python."""


def validated(
    model: type[Model],
    data: Any,
    *,
    place: Callable[[Where], str],
    error: type[InputError],
    also_allowed: Iterable[str] = (),
    every: bool = False,
) -> Model:
    """Validate plain data, the content of a file, by a pydantic model; raises an InputError of class ``error``.

    ``place`` returns a place below the data as ``file:line: field``; ``also_allowed`` are keys that the caller has removed,
    listed beside the model's own. With ``every`` the error names every fault, not the first alone.
    """
    try:
        for large, size, most in _too_large(data, ()):
            raise error(place(large), size, most)
        return model.model_validate(data)
    except RecursionError as deep:
        raise error(place(()), "nested too deeply") from deep
    except ValidationError as found:
        details = found.errors(include_url=False)
    faults = _Judged(model, data, place, error, (*also_allowed,)).faults(details)
    raise together(faults) if every else next(faults)


class _Judged(NamedTuple):
    model: type[BaseModel]
    data: Any
    place: Callable[[Where], str]
    error: type[InputError]
    also_allowed: tuple[str, ...]

    def faults(self, details: Sequence[ErrorDetails]) -> Iterator[InputError]:
        """Yield the faults that pydantic found: unknown keys first, then missing ones, then values, each place once."""
        meant: set[Where] = set()
        places: dict[Where, list[ErrorDetails]] = {}
        for item in sorted(details, key=lambda one: {"extra_forbidden": 0, "missing": 1}.get(one["type"], 2)):
            *around, key = item["loc"] or ("",)
            if item["type"] == "extra_forbidden":
                unknown = self.unknown_key(item["loc"])
                meant.add((*around, unknown.hint))
                yield unknown
            elif item["type"] != "missing":
                places.setdefault(_written(self.data, item["loc"]), []).append(item)
            elif (*around, suggestion(str(key), [str(key)])) not in meant:  # misspelt, a key is one fault
                yield self.error(self.place(item["loc"]), f"{key!r} is missing")
        for where, items in places.items():
            yield self.value(where, items)

    def value(self, where: Where, items: Sequence[ErrorDetails]) -> InputError:
        """Return the fault of a value; a union reports an error for each of its types."""
        first = items[0]
        if first["type"] == "value_error" and not where:
            return self.error(self.place(where), _allowed(first))
        words = re.findall("'([^']*)'", first.get("ctx", {}).get("expected", ""))
        hint = suggestion(first["input"], words) if isinstance(first["input"], str) else ""
        allowed = " or ".join(dict.fromkeys(map(_allowed, items)))
        return self.error(self.place(where), f"found {shown(first['input'])}", allowed, hint)

    def unknown_key(self, where: Where) -> InputError:
        """Return the fault of a key that the model around it has not."""
        model, key = self.model, str(where[-1])
        for outer in where[:-1]:
            named = (field for name, field in model.model_fields.items() if outer in {name, field.alias})
            model = next((inner for field in named for inner in _models_in(field.annotation)), model)
        own = (field.alias or name for name, field in model.model_fields.items())
        known = (*(self.also_allowed if len(where) == 1 else ()), *own)
        found = f"unknown key {shown(key)}"
        return self.error(self.place(where), found, ", ".join(known), suggestion(key, known))


def _too_large(data: Any, where: Where) -> Iterator[tuple[Where, str, str]]:
    """Yield what is too large, before pydantic makes an error of each entry: its place, its size, and the size allowed."""
    if isinstance(data, str):
        if len(data) > MOST_CHARACTERS:
            yield where, f"found {len(data):,} characters", f"at most {MOST_CHARACTERS:,}"
    elif isinstance(data, dict | list):
        if len(data) > MOST_ENTRIES:
            yield where, f"found {len(data):,} entries", f"at most {MOST_ENTRIES:,}"
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            for inside in (key, value):
                long = isinstance(inside, str) and len(inside) > MOST_CHARACTERS
                if long or isinstance(inside, dict | list):
                    yield from _too_large(inside, (*where, key))


def _written(data: Any, where: Where) -> Where:
    """Return the prefix of a place that exists in the file, without pydantic's names of types and added indices."""
    for depth, key in enumerate(where):
        inside = isinstance(data, dict) and key in data
        if not inside and not (isinstance(data, list) and isinstance(key, int) and key < len(data)):
            return where[:depth]
        data = data[key]
    return where


def _allowed(item: ErrorDetails) -> str:
    own = _WORDS.get(item["type"])
    if own is None:
        return item["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    limits = item.get("ctx", {})
    whole = {key: int(one) for key, one in limits.items() if isinstance(one, float) and one.is_integer()}
    return own.format_map({**limits, **{key: one for key, one in whole.items() if abs(one) < 10**15}})


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for key in get_args(annotation):
        yield from _models_in(key)
