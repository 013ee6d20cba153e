"""The base of everything that is judged by pydantic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

_INHERITED = frozenset(dir(BaseModel))


class Record(BaseModel):
    """A part of a file: unknown keys are refused, and a text is not a number.

    Its validator is built when it is first needed, as a command needs few of them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other fields, without the cached properties that were found from the former ones."""
        copied = super().model_copy(update=update, deep=deep)
        if update:
            for name in copied.__dict__.keys() - type(self).model_fields.keys():
                del copied.__dict__[name]
        return copied

    def __dir__(self) -> list[str]:
        """Return the names of fields, properties and methods, without those of pydantic."""
        names = set(super().__dir__()) - _INHERITED
        return sorted(name for name in names if not name.startswith("_") and not name.endswith("_"))
