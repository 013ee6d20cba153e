"""The records inside a plan: its network, files, cost, limits, refinement and baselines."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from hypar.errors import shown
from hypar.files.record import Record
from hypar.plan.score import Amount

Operators = Literal["operators"]


class ModelRecord(Record):
    """The network that was planned, and the size of the mini-batch."""

    name: str
    digest: str
    batch: Annotated[int, Field(ge=1)]
    dims: list[str] | None = None


class ProfileRecord(Record):
    """The table of measured times that was read."""

    name: str
    digest: str


class FilesRecord(Record):
    """The files that were planned with, relative to the plan's folder.

    Attributes:
        model: the model file.
        hardware: the hardware file.
        profile: the table of measured times.
    """

    model: str | None = None
    hardware: str | None = None
    profile: str | None = None


class CostRecord(Record):
    """The cost that was minimised, and its value."""

    name: str
    value: Amount
    unit: str
    parameters: dict[str, int | float | str] = Field(default={})


class LimitsRecord(Record):
    """The limits that kept a joint search from a proof.

    Attributes:
        seconds: the time that it was allowed, counted as work.
        bytes: the memory that it was allowed.
        cut: ``time`` if the clock came before the work was done, ``interrupt`` if the user did; None if neither did.
        answers: how many answers the search had given by then.
    """

    seconds: Annotated[Amount, Field(gt=0)]
    bytes: Annotated[Amount, Field(gt=0)]
    cut: Literal["time", "interrupt"] | None = None
    answers: Annotated[int, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _both(self) -> Self:
        """Check that a search that was cut short says where."""
        if (self.cut is None) != (self.answers is None):
            raise ValueError("limits: found one of cut and answers; allowed: both or none")
        return self


class RefinementRecord(Record):
    """The effect of refinement against the engine.

    Attributes:
        before_s: the engine's time of the plan that was searched.
        after_s: the engine's time of the refined plan.
        changed: number of choices that differ.
    """

    before_s: Amount
    after_s: Amount
    changed: Annotated[int, Field(ge=0)]


SEARCHED = "search"
"""The name of the search's own plan beside baselines."""


class BaselinesRecord(Record):
    """The strategies that the engine timed beside the search's plan.

    Attributes:
        taken: name of the strategy whose plan this is, or ``search``.
        step_s: the engine's time of the search's plan and of each baseline, before any refinement.
    """

    taken: str
    step_s: Annotated[dict[str, Amount], Field(min_length=2)]

    @model_validator(mode="after")
    def _timed(self) -> Self:
        """Check that the search's plan and the plan that was taken are timed."""
        if SEARCHED not in self.step_s:
            raise ValueError(f"baselines.step_s: found no {SEARCHED!r}; allowed: it and strategies")
        if self.taken not in self.step_s:
            allowed = ", ".join(self.step_s)
            raise ValueError(f"baselines.taken: found {shown(self.taken)}; allowed: {allowed}")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """Return the strategies that were timed."""
        return tuple(name for name in self.step_s if name != SEARCHED)
