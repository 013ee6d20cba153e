"""The records inside a plan: its network, files, cost, limits, refinement, baselines, chunks, convention, and its score.

``docs/plans.md`` says what each key means. Of conventions a file leaves out ``paper``, which also stands for the count of a
cost that has only one, as ``direct`` of the cost ``deepa``: so a plan without the entry is counted as it was when plans had none.
"""

# Annotations are not postponed here: pydantic would parse the text of each one at every start.

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, cast, get_args

from pydantic import Field

from hypar.document import Result
from hypar.files.validation import Record, one_of
from hypar.network.training import OPTIMIZERS, PRECISIONS, RECOMPUTED
from hypar.sharding.conventions import BY_LEVELS, FUSED, MOVED
from hypar.sharding.tree import Amount, fault

Manner = Literal["best", "layers", "one"]

Chunks = Manner | int
"""A manner of chunks by name, or the size of CGDP's rule."""

CHUNKS: tuple[str, ...] = get_args(Manner)
"""Names of the fastest chunks found, of one for each layer, and of a single one."""

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
    """The files that were planned with, relative to the plan's folder."""

    model: str | None = None
    hardware: str | None = None
    profile: str | None = None


class CostRecord(Record):
    """The cost that was minimised, and its value."""

    name: str
    value: Amount
    unit: str
    parameters: dict[str, int | float | str]


class TrainingRecord(Record):
    """How a step trains, in what is not as usual; the microbatches are those of a mini-batch without stages."""

    microbatches: Annotated[int, Field(ge=2)] = 1
    precision: Annotated[str, one_of(PRECISIONS)] | None = None
    zero: Annotated[int, Field(ge=1, le=3)] = 0
    recompute: Annotated[str, one_of(RECOMPUTED[1:])] = RECOMPUTED[0]

    def faults(self, batch: int, *, scored: bool, staged: bool) -> Iterator[str]:
        """Yield where it is not of a plan with such a mini-batch."""
        if not scored and self.model_fields_set:
            yield "score: found none; allowed: one, as the plan says how it trains"
        if self.microbatches > 1 and (staged or batch % self.microbatches):
            allowed = "stages.microbatches" if staged else f"a divisor of the batch {batch:,}"
            yield fault("training.microbatches", self.microbatches, allowed)


class LimitsRecord(Record):
    """The limits that kept a joint search from a proof, and what ``cut`` it short, if anything did."""

    seconds: Annotated[Amount, Field(gt=0)]
    bytes: Annotated[Amount, Field(gt=0)]
    cut: Literal["time", "interrupt"] | None = None


class RefinementRecord(Record):
    """The engine's time before and after refinement, and how many choices it changed."""

    before_s: Amount
    after_s: Amount
    changed: Annotated[int, Field(ge=0)]


SEARCHED = "search"
"""The name of the search's own plan beside baselines."""


class BaselinesRecord(Record):
    """The strategies that the engine timed beside the search's plan, before any refinement, and the one that was taken."""

    taken: str
    step_s: Annotated[dict[str, Amount], Field(min_length=2)]

    @property
    def names(self) -> tuple[str, ...]:
        """Return the strategies that were timed."""
        return tuple(name for name in self.step_s if name != SEARCHED)


MOST_NAMED = 6
"""Chunks that are named one by one, at most."""


class ChunksRecord(Record):
    """Layers that exchange their gradients together, in the order of the backward phase, and the time of each by itself."""

    asked: Manner | Annotated[int, Field(ge=1)]
    layers: list[Annotated[list[str], Field(min_length=1)]]
    alone_s: Amount

    def faults(self, layers: Sequence[str], *, scored: bool) -> Iterator[str]:
        """Yield where chunks are not of a plan with such layers: one is out of the backward phase's order."""
        if not scored:
            yield "score: found none; allowed: one, as gradients are exchanged in chunks"
        if not isinstance(self.asked, str) and self.asked > len(layers):
            yield fault("chunks.asked", self.asked, f"{', '.join(CHUNKS)}, or 1 to {len(layers)}")
        left = iter(reversed(layers))
        allowed = "layers that are cut, each once, in the order of the backward phase"
        for number, chunk in enumerate(self.layers):
            for at, name in enumerate(chunk):
                if name not in left:
                    yield fault(f"chunks.layers[{number}][{at}]", name, allowed)

    @property
    def words(self) -> str:
        """Return the chunks in a few words."""
        if not self.layers:
            return f"no chunks ({self.asked}), as no layer exchanges gradients"
        sizes = [(size, len([*same])) for size, same in groupby(map(len, self.layers))]
        words = [f"{count} of {size} layer{'s' * (size > 1)}" for size, count in sizes]
        if len(self.layers) <= MOST_NAMED:
            words = [" to ".join(dict.fromkeys((chunk[0], chunk[-1]))) for chunk in self.layers]
        more = ", ..." * (len(words) > MOST_NAMED)
        count = f"{len(self.layers)} chunk{'s' * (len(self.layers) > 1)}"
        return f"{count} ({self.asked}): {', '.join(words[:MOST_NAMED])}{more}"


Counted = Annotated[str, one_of(BY_LEVELS)]
"""A convention in a plan file."""


def of_score(convention: str) -> str:
    """Return the convention of a score where none is asked for: what a correct execution of the plan moves."""
    return FUSED if convention == FUSED else MOVED


Items = dict[str, Amount]


class GroupScore(Record):
    """One training step on one group of identical devices of a heterogeneous machine, or on one stage."""

    group: str
    devices: Annotated[int, Field(ge=1)]
    computing_s: Amount
    communicating_s: Amount
    idle_s: Amount
    memory_bytes: Amount
    capacity_bytes: Amount | None
    fits: bool


class Score(Result, Record):
    """One training step on a machine, as ``docs/plans.md`` describes it.

    Attributes:
        hardware: the machine's name: its file's name without the ending.
        energy_j: its energy on all devices; None if the machine's file gives no energies.
        communication_bytes: bytes that all devices receive.
        memory_bytes: peak on each device; ``memory`` is its parts, with ``groups`` on the fullest one.
        time: seconds of each phase's computation, of updates and of communication, summed over all groups; ``overlapped_s`` is
            the excess of their sum over ``time_s``.
        critical: seconds of each on the critical path; they sum to ``time_s``.
        groups: the step on each group of a heterogeneous machine, or on each stage; None for identical devices without stages.
    """

    _document: ClassVar[str] = "plan"

    hardware: str
    hardware_digest: str
    hardware_changes: dict[str, Any]
    convention: Counted = "paper"
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


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Origin:
    """From what a plan or a score was made; None is what the names in it find, beside ``file``, the plan's."""

    plan: Any = None
    network: Any = None
    machine: Any = None
    profile: Any = None
    file: Path = Path("plan")


def remember(result: Any, origin: Origin) -> None:
    """Note the origin of a plan or a score; it is no part of the record, of its equality or of its file."""
    object.__setattr__(result, "_origin", origin)


def origin_of(result: Any) -> Origin:
    """Return the origin of a plan or a score; an empty one if it is not known."""
    return cast("Origin", getattr(result, "_origin", Origin()))
