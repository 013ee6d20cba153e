"""The base of everything that is judged by pydantic."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_INHERITED = frozenset(dir(BaseModel))


def one_of(names: Collection[str]) -> AfterValidator:
    """Return the validator of a text that is one of some names."""

    def check(name: str) -> str:
        if name not in names:
            raise ValueError(", ".join(names))
        return name

    return AfterValidator(check)


class Record(BaseModel):
    """A part of a file: unknown keys are refused, and a text is not a number.

    Its validator is built when it is first needed, as a command needs few of them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    def __dir__(self) -> list[str]:
        """Return the names of fields, properties and methods, without those of pydantic."""
        names = set(super().__dir__()) - _INHERITED
        return sorted(name for name in names if not name.startswith("_") and not name.endswith("_"))

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other values in some fields; what was derived from them is derived again."""
        copied = super().model_copy(update=update, deep=deep)
        for name in [*copied.__dict__]:
            if isinstance(getattr(type(self), name, None), cached_property):
                del copied.__dict__[name]
        return copied
