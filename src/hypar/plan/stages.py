"""The stages of a plan: how they were asked for, their order of work, and the layers and the time of each.

``docs/plans.md`` says what each key means, and where it is left out, which is None here.
"""

# Annotations are not postponed here: pydantic would parse the text of each one at every start.

import math
from collections.abc import Iterator
from itertools import accumulate, chain, pairwise
from typing import Annotated, Literal

from pydantic import Field

from hypar.errors import shown
from hypar.files.validation import Record, one_of, only
from hypar.sharding.tree import MOST_DEVICES, Amount, fault

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
