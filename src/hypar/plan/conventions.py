"""The convention of a plan: how it is asked for, and how a plan file records it.

A file leaves out ``paper``, which also stands for the count of a cost that has only one, as ``direct`` of the cost
``deepa``: so a plan without the entry is counted as it was when plans had none.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from hypar.sharding.conventions import FUSED, MOVED, PAPER


def _left_out(value: Any) -> Any:
    return None if value == PAPER else value


Recorded = Annotated[Literal["moved", "fused"] | None, BeforeValidator(_left_out)]
"""A convention in a plan file; None for ``paper``."""


def recorded(convention: str) -> Literal["moved", "fused"] | None:
    """Return the entry of a plan file for a convention."""
    return None if convention == PAPER else convention  # type: ignore[return-value]


def of_score(convention: str) -> str:
    """Return the convention of a score where none is asked for: what a correct execution of the plan moves."""
    return FUSED if convention == FUSED else MOVED
