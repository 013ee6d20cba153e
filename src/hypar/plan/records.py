"""The records inside a plan: its network, files, cost, limits, refinement, baselines, chunks, convention, stages, and its score.

``docs/plans.md`` says what each key means, and where it is left out, which is None here. Of conventions a file leaves out ``paper``,
which also stands for the count of a cost that has only one, as ``direct`` of the cost ``deepa``: so a plan without the entry is
counted as it was when plans had none.
"""

# Annotations are not postponed here: pydantic would parse the text of each one at every start.

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, groupby, pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, cast, get_args

from pydantic import Field

from hypar.document import Result
from hypar.errors import shown
from hypar.files.validation import Record, one_of, only
from hypar.network.training import OPTIMIZERS, PRECISIONS, RECOMPUTED
from hypar.sharding.conventions import BY_LEVELS, FUSED, MOVED
from hypar.sharding.tree import MOST_DEVICES, Amount, fault

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


INTERLEAVED = "interleaved"
FLUSHES = {"layer-block": False, "gpipe": True, "1f1b": True, INTERLEAVED: True}
"""The schedules of stages, the last with several parts of the network in each, and whether the pipeline runs empty after each
mini-batch, so that no weights are stale."""

BALANCES = {"time": "seconds", "memory": "bytes", "traffic": "bytes", "macs": "MACs"}
"""The quantities of the costliest stage that a partition can minimise, with their units."""


_FEW = only(lambda array: math.prod(array) <= MOST_DEVICES, f"at most {MOST_DEVICES:,} devices")
Ways = Annotated[list[Annotated[int, Field(ge=2)]], _FEW]


class StageRecord(Record):
    """One stage of a pipeline; on identical devices it has no group, with one part no ``parts``, the numbers of its layers."""

    group: str | None = None
    layers: Annotated[list[str], Field(min_length=1)]
    parts: list[Annotated[int, Field(ge=1)]] | None = None
    busy_s: Amount
    in_flight: Annotated[int, Field(ge=0)]
    staleness: Annotated[int, Field(ge=0)]

    @property
    def spans(self) -> Iterator[tuple[str, ...]]:
        """Yield the layers of each part."""
        ends = accumulate(self.parts or [len(self.layers)], initial=0)
        yield from (tuple(self.layers[start:end]) for start, end in pairwise(ends))

    @property
    def ends(self) -> str:
        """Return the first and the last layer of each part, as people read them."""
        return ", ".join(" to ".join(dict.fromkeys((span[0], span[-1]))) for span in self.spans)


class StagesRecord(Record):
    """Stages, with ``outside`` levels and uneven splits outside them, and how they were asked for.

    For ``best``, ``array`` has the levels over which stages and cuts were tried, ``arrays`` those inside each device group.
    """

    asked: Annotated[int, Field(ge=1)] | Literal["best"]
    array: Ways | None = None
    solver: str | None = None
    schedule: Annotated[str, one_of(FLUSHES)]
    parts: Annotated[int, Field(ge=2)] | None = None
    asked_microbatches: Annotated[int, Field(ge=1)] | None = None
    starts: Literal[True] | None = None
    balance: Annotated[str, one_of(BALANCES)] | None = None
    bottleneck: Amount | None = None
    outside: Annotated[int, Field(ge=1)] | None = None
    microbatches: Annotated[int, Field(ge=1)]
    bottleneck_s: Amount
    arrays: dict[str, Ways] | None = None
    stages: Annotated[list[StageRecord], Field(min_length=1)]

    def faults(self) -> Iterator[str]:
        """Yield where the request, the stages, the schedule and the microbatches do not agree."""
        best, count, several = self.asked == "best", len(self.stages), self.parts_of_each
        asked = "the best were" if best else "a number of stages was"
        other = "outside" if best else "asked_microbatches"
        valued = self.pipelined and self.balance not in {None, "time"}
        rules = (
            ("asked", not best and self.asked != count, f"{count}, as there are, or best"),
            ("array", sum(own is not None for own in (self.array, self.arrays)) != best, "one where the best were asked for, and nowhere else"),
            (other, getattr(self, other) is not None, f"none where {asked} asked for"),
            ("starts", self.starts and (best or self.balance), "none with the best stages or a balance"),
            ("bottleneck", (self.bottleneck is None) is valued, "one for a balance other than time, and nowhere else"),
            ("microbatches", self.microbatches > 1 and not FLUSHES[self.schedule], f"1, as {self.schedule!r} takes whole mini-batches"),
            ("microbatches", several and self.microbatches % count, f"a multiple of the {count} stages"),
            ("array", self.groups and self.array is not None, "stages.arrays, as there are groups"),
            ("parts", (self.schedule == INTERLEAVED) is (self.parts is None), f"2 or more by {INTERLEAVED!r}, and nowhere else"),
        )  # fmt: skip
        yield from (
            fault(f"stages.{name}", getattr(self, name), allowed) for name, broken, allowed in rules if broken
        )
        for number, stage in enumerate(self.stages):
            sizes = stage.parts
            if (sizes and len(sizes)) != several or sum(sizes or ()) not in {0, len(stage.layers)}:
                allowed = f"{several} of {len(stage.layers)} layers" if several else "none"
                yield fault(f"stages.stages[{number}].parts", sizes, allowed)
        if len({*self.layers}) < len(self.layers):
            yield "stages: found a layer twice; allowed: each once"
        own = [stage.group for stage in self.stages]
        equal = [group for group in self.groups for _ in range(self.of_each_group)]
        if {*own} != {None} and own != equal:
            allowed = "equally many consecutive stages on each group, or no groups"
            yield f"stages.stages: found the groups {shown(own)}; allowed: {allowed}"

    @property
    def groups(self) -> tuple[str, ...]:
        """Return the device groups that hold the stages, first to last; empty on identical devices."""
        return tuple(dict.fromkeys(stage.group for stage in self.stages if stage.group is not None))

    @property
    def of_each_group(self) -> int:
        """Return the number of stages on each device group; all on identical devices."""
        return len(self.stages) // max(1, len(self.groups))

    @property
    def pipelined(self) -> bool:
        """Return whether the stages form a pipeline; they do not where ``best`` found none to be faster."""
        return self.asked != "best" or len(self.stages) > 1

    @property
    def parts_of_each(self) -> int | None:
        """Return the number of parts of each stage in the pipeline; None for one."""
        return self.parts if self.pipelined else None

    @property
    def spans(self) -> tuple[tuple[StageRecord, tuple[str, ...]], ...]:
        """Return the parts of all stages in the network's order, each with its stage: consecutive layers."""
        each = zip(*([(stage, own) for own in stage.spans] for stage in self.stages), strict=True)
        return tuple(chain.from_iterable(each))

    @property
    def layers(self) -> tuple[str, ...]:
        """Return the layers of all stages, in the network's order."""
        return tuple(layer for _, layers in self.spans for layer in layers)


def stage_name(stage: int) -> str:
    """Return the name of a stage and its resource, counted from 1."""
    return f"stage {stage + 1}"


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
