"""The arrays of simulated devices while they run a program."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hypar.execution.exchange import Array, Mask
    from hypar.program.layout import Numbers
    from hypar.program.steps import Program


@dataclass(frozen=True, kw_only=True)
class Devices:
    """The arrays of all devices.

    Attributes:
        program: the program that they run.
        arrived: for each transfer, by its number among the steps, the elements received so far, ``[levels, devices]``.
        elements: the elements that each device had of every array of a microbatch when it was written, ``[devices]``.
        values: each array by its name, ``[devices, *shape]``.
        held: the elements that each device should have of an array, where it does not have all or none.
        parameters: each device's own elements of the trained tensors, by layer and name, ``[devices, *shape]``.
        losses: what each device adds to the loss, by the output layer; elements that several devices hold count once.
    """

    program: Program
    arrived: dict[int, Numbers]
    elements: dict[str, Numbers] = field(default_factory=dict)
    values: dict[str, Array] = field(default_factory=dict)
    held: dict[str, Mask] = field(default_factory=dict)
    parameters: dict[str, dict[str, Array]] = field(default_factory=dict)
    losses: dict[str, Array] = field(default_factory=dict)

    @property
    def moved(self) -> dict[int, Numbers]:
        """For each transfer the elements received at each level."""
        return {number: received.sum(axis=1) for number, received in self.arrived.items()}

    @property
    def loss(self) -> float:
        """The loss of all microbatches."""
        return float(sum(values.sum() for values in self.losses.values()))
