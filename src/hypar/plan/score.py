"""What a machine makes of a plan: the time, energy, bytes and memory of one training step."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, Field

from hypar.files.record import Record
from hypar.network.training import OPTIMIZERS

Amount = Annotated[int | float, Field(ge=0, le=1e200)]
Items = dict[str, Amount]


def _known(name: str) -> str:
    """An optimizer that there is."""
    if name not in OPTIMIZERS:
        raise ValueError(", ".join(OPTIMIZERS))
    return name


class GroupScore(Record):
    """One training step on one group of like devices of a mixed machine, or on one stage.

    Attributes:
        group: its name.
        devices: how many it has.
        computing_s: seconds that they compute.
        communicating_s: seconds that they receive.
        idle_s: seconds that they do neither, but wait for others or for the end.
        memory_bytes: peak on each of them.
        capacity_bytes: memory of one; None where the file does not say.
        fits: whether the peak is within the capacity.
    """

    group: str
    devices: Annotated[int, Field(ge=1)]
    computing_s: Amount
    communicating_s: Amount
    idle_s: Amount
    memory_bytes: Amount
    capacity_bytes: Amount | None
    fits: bool


class Score(Record):
    """One training step on a machine.

    Attributes:
        hardware: the machine's name, that of its file without the ending.
        hardware_digest: a hash of all that the machine is, sources excepted.
        hardware_changes: what was changed against the file.
        optimizer: ``sgd``, ``momentum`` or ``adam``.
        element_bytes: bytes of an element of the network.
        word_bytes: bytes of the machine's words.
        time_s: how long a step takes.
        energy_j: its energy on all devices; None where the machine's file gives no energies.
        communication_bytes: bytes that all devices receive.
        memory_bytes: peak on each device.
        capacity_bytes: memory of a device; None where the file does not say.
        fits: whether the peak is within the capacity.
        time: seconds of each phase's computation, of updates and of communication, as if one after another.
        overlapped_s: by how much these are more than ``time_s``.
        critical: seconds of each on the critical path; they sum to ``time_s``.
        busy: seconds that each resource works.
        energy: joules of arithmetic, of accesses to registers, array, buffer and memory, and of words moved.
        communication: bytes at each level, and under ``stages`` those from stage to stage.
        memory: bytes of weights, gradients, optimizer state, activations kept, and transfer buffers.
        groups: of a mixed machine, what the step is to each group, of stages, to each stage; memory above is that of the
            fullest of them, and ``time`` what is on the critical path. None for like devices without stages.
    """

    hardware: str
    hardware_digest: str
    hardware_changes: dict[str, Any] = Field(default_factory=dict)
    optimizer: Annotated[str, AfterValidator(_known)]
    element_bytes: Annotated[int, Field(ge=1)]
    word_bytes: Amount
    time_s: Amount
    energy_j: Amount | None
    communication_bytes: Amount
    memory_bytes: Amount
    capacity_bytes: Amount | None
    fits: bool
    time: Items
    overlapped_s: Amount
    critical: Items
    busy: Items
    energy: Items | None
    communication: Items
    memory: Items
    groups: list[GroupScore] | None = None

    def to_data(self) -> dict[str, Any]:
        """The score as plain data, without groups where there are none."""
        data = self.model_dump(mode="json")
        return data if self.groups is not None else {key: data[key] for key in data if key != "groups"}


class Totals(NamedTuple):
    """A score without its items.

    Attributes:
        time_s: how long a step takes.
        energy_j: its energy on all devices; None where the machine's file gives no energies.
        communication_bytes: bytes that all devices receive.
        memory_bytes: peak on each device.
    """

    time_s: float
    energy_j: float | None
    communication_bytes: float
    memory_bytes: float


def totals_of(score: Score | None) -> Totals:
    """The totals of the score of a plan that was made for a machine."""
    assert score is not None  # noqa: S101 (a machine was named, so there is one)
    return Totals(score.time_s, score.energy_j, score.communication_bytes, score.memory_bytes)
