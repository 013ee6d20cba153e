"""Verification of a program: a training step on simulated devices against one device, and its bytes against their count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hypar.execution.reference import start, step_from, updated
from hypar.execution.simulator import run
from hypar.program.steps import Update

if TYPE_CHECKING:
    from hypar.execution.reference import Step
    from hypar.execution.simulator import Devices
    from hypar.program.places import Numbers
    from hypar.program.steps import Item, Program

TOLERANCE = 1e-10
"""Largest error of a number, relative to the largest of its tensor."""

SMALL = 1e-2
"""A gradient that is zero but for rounding, as a bias's before batch normalisation, is held against this much of the largest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A transfer as it was counted and as it was run.

    Attributes:
        item: what it is for.
        counted: elements that each level moves by the count.
        moved: elements received at each level when it was run; None for one that was left out.
    """

    item: Item
    counted: Numbers
    moved: Numbers | None

    @property
    def agrees(self) -> bool:
        """Whether every level moved what was counted."""
        return self.moved is not None and bool((self.counted == self.moved).all())


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What a run of a program shows.

    Attributes:
        transfers: every transfer in order.
        loss: the loss on the devices.
        expected_loss: the loss on one device.
        errors: for each trained tensor the largest error of its gradient and of its updated values on any device, relative
            to the largest value; infinite where an element is missing.
    """

    transfers: tuple[Checked, ...]
    loss: float
    expected_loss: float
    errors: dict[str, float]

    @property
    def worst(self) -> float:
        """The largest error of the loss, a gradient or an updated value."""
        scale = abs(self.expected_loss) or 1.0
        return max([_finite(abs(self.loss - self.expected_loss) / scale), *self.errors.values()])

    @property
    def agrees(self) -> bool:
        """Whether all numbers are those of one device and every level moved what was counted."""
        return self.worst <= TOLERANCE and all(transfer.agrees for transfer in self.transfers)


def verify_program(program: Program, *, seed: int = 0, without: int | None = None) -> Verification:
    """Run a program and hold it against one device and against its own count.

    Args:
        program: the program.
        seed: seed of the samples and of the parameters' initial values.
        without: the number of a transfer among the steps to leave out, which must show.
    """
    begin = start(program.graph, seed)
    expected = step_from(program.graph, begin)
    devices = run(program, begin, without=without)
    transfers = tuple(
        Checked(item=step.item, counted=step.counted(program.places), moved=devices.moved.get(number))
        for number, step in program.transfers.items()
    )
    return Verification(
        transfers=transfers, loss=devices.loss, expected_loss=expected.loss, errors=_errors(devices, expected)
    )


def _errors(devices: Devices, expected: Step) -> dict[str, float]:
    """Return the largest relative error of each trained tensor on any device."""
    found = {}
    largest = max((float(np.abs(own).max()) for own in expected.gradients.values()), default=1.0)
    for update in devices.program.steps:
        if isinstance(update, Update):
            name = f"{update.layer}.{update.parameter}"
            gradients = devices.values[update.gradient]
            values = devices.values[f"W {name}"]
            pairs = ((gradients, expected.gradients[name]), (updated(values, gradients), expected.updated[name]))
            held = devices.held[f"W {name}"]
            found[name] = max(_error(own, whole, held, SMALL * largest) for own, whole in pairs)
    return found


def _error(own: np.ndarray, whole: np.ndarray, held: np.ndarray, least: float) -> float:
    scale = max(float(np.abs(whole).max()), least) or 1.0
    difference = np.abs(own - whole)[held]
    return _finite(float(difference.max() / scale)) if difference.size else 0.0


def _finite(value: float) -> float:
    return value if np.isfinite(value) else float("inf")
