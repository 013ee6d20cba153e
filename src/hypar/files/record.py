"""The base of everything that is judged by pydantic."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

_INHERITED = frozenset(dir(BaseModel))


class Record(BaseModel):
    """A part of a file: unknown keys are refused, and a text is not a number.

    Its validator is built when it is first needed, as a command needs few of them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    def __dir__(self) -> list[str]:
        """Return the names of fields, properties and methods, without those of pydantic."""
        names = set(super().__dir__()) - _INHERITED
        return sorted(name for name in names if not name.startswith("_") and not name.endswith("_"))
