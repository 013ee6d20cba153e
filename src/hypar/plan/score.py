"""The score of a plan on a machine: the time, energy, bytes and memory of one training step."""

# Annotations are not postponed here: pydantic would parse the text of each one at every start.

from typing import Annotated, Any, ClassVar

from pydantic import Field

from hypar.document import Result
from hypar.files.record import Record, one_of
from hypar.network.training import OPTIMIZERS
from hypar.plan.records import Recorded
from hypar.sharding.tree import Amount

Items = dict[str, Amount]


class GroupScore(Record):
    """One training step on one group of identical devices of a heterogeneous machine, or on one stage.

    Attributes:
        idle_s: seconds of waiting for other groups or for the end.
        memory_bytes: peak on each device.
        capacity_bytes: memory of a device; None if the machine's file does not say.
    """

    group: str
    devices: Annotated[int, Field(ge=1)]
    computing_s: Amount
    communicating_s: Amount
    idle_s: Amount
    memory_bytes: Amount
    capacity_bytes: Amount | None
    fits: bool


class Score(Result, Record):
    """One training step on a machine.

    Attributes:
        hardware: the machine's name: its file's name without the ending.
        hardware_digest: a hash of the machine's description, sources excepted.
        convention: the convention by which bytes are counted; None as in a plan.
        energy_j: its energy on all devices; None if the machine's file gives no energies.
        communication_bytes: bytes that all devices receive.
        memory_bytes: peak on each device.
        capacity_bytes: memory of a device; None if the file does not say.
        time: seconds of each phase's computation, of updates and of communication, summed over all groups.
        overlapped_s: the excess of their sum over ``time_s``.
        critical: seconds of each on the critical path; they sum to ``time_s``.
        busy: seconds that each resource works.
        energy: joules of arithmetic, of accesses to registers, array, buffer and memory, and of words moved; of links, and
            at rest, if the machine's file gives them.
        communication: bytes at each level, and under ``stages`` the bytes sent between stages.
        memory: bytes of weights, gradients, optimizer state, activations kept, and transfer buffers.
        groups: the step on each group of a heterogeneous machine, or on each stage; ``memory`` is then the fullest
            one's. None for identical devices without stages.
    """

    _document: ClassVar[str] = "plan"

    hardware: str
    hardware_digest: str
    hardware_changes: dict[str, Any]
    convention: Recorded = None
    optimizer: Annotated[str, one_of(OPTIMIZERS)]
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
        """Return the score as plain data, without keys for absent groups and for the convention ``paper``."""
        return self.model_dump(mode="json", exclude_defaults=True)
