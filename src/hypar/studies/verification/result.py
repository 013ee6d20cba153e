"""The result of a verification: bytes as planned, counted and moved, and the numbers of the step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from hypar.execution.verify import TOLERANCE
from hypar.results import Result

if TYPE_CHECKING:
    from hypar.plan.diff import Change
    from hypar.plan.plan import Plan
    from hypar.program.steps import Item


BOUNDS = (1e-12, TOLERANCE)
"""Bounds of the errors that are stated; their digits depend on the processor and the number of threads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelBytes:
    """The bytes that all devices receive at one level.

    Attributes:
        level: name of the level, as ``H1``, or ``stages``.
        planned: bytes by the count of the plan's cost.
        counted: bytes by the count of the program.
        moved: bytes of the run; None if nothing was run.
    """

    level: str
    planned: float
    counted: int
    moved: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A transfer at one level that the plan's cost counts otherwise than the program.

    Attributes:
        item: what it is for.
        level: name of the level.
        planned: bytes by the count of the plan's cost.
        counted: bytes by the count of the program.
        case: the letter of the reason, one of ``REASONS``.
    """

    item: Item
    level: str
    planned: float
    counted: int
    case: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """A transfer that moved other bytes than were counted.

    Attributes:
        item: what it is for.
        level: name of the level.
        counted: bytes by the count.
        moved: bytes of the run.
    """

    item: Item
    level: str
    counted: int
    moved: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """The numbers of a step on simulated devices, held against one device.

    Attributes:
        loss: the loss on the devices.
        expected_loss: the loss on one device.
        errors: the largest relative error of each trained tensor's gradient and updated values.
        zero: the trained tensors whose gradient is zero everywhere, so that it proves nothing.
    """

    loss: float
    expected_loss: float
    errors: dict[str, float]
    zero: tuple[str, ...]

    @property
    def worst_tensor(self) -> str:
        """The trained tensor with the largest error."""
        return max(self.errors, key=self.errors.__getitem__)

    @property
    def worst(self) -> float:
        """The largest relative error of a trained tensor."""
        return self.errors[self.worst_tensor]

    @property
    def error_below(self) -> float | None:
        """The least of ``BOUNDS`` that no error exceeds; None if one exceeds the tolerance."""
        loss_error = abs(self.loss - self.expected_loss) / (abs(self.expected_loss) or 1.0)
        return next((one for one in BOUNDS if loss_error <= one and self.worst <= one), None)

    @property
    def agree(self) -> bool:
        """Whether all numbers are those of one device."""
        return self.error_below is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified(Result):
    """What a training step of a plan on simulated devices shows.

    Attributes:
        plan: the plan.
        batch: samples of the mini-batch that was run or counted.
        devices: number of devices.
        convention: the convention by which the program was lowered.
        planned_by: the convention by which ``planned`` is counted.
        levels: the bytes of each level, outermost first.
        differences: the transfers that the plan's cost counts otherwise.
        mismatches: the transfers that moved other bytes than were counted; none of a correct program.
        changes: the results that the plan states, its cost, stages and score, that are other ones when counted again.
        numbers: the numbers; None if the program was only counted.
        notes: what differs between the plan and what was run.
    """

    _view: ClassVar[str] = "verification"

    plan: Plan
    batch: int
    devices: int
    convention: str
    planned_by: str
    levels: tuple[LevelBytes, ...]
    differences: tuple[Difference, ...]
    mismatches: tuple[Mismatch, ...]
    changes: tuple[Change, ...]
    numbers: Numbers | None
    notes: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing speaks against the plan: numbers agree, levels moved what was counted, and results are as stated."""
        return not (self.mismatches or self.changes) and (self.numbers is None or self.numbers.agree)
