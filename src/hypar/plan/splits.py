"""Splits of a plan, and how those of unlike groups hang together."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


import math
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field

from hypar.errors import field_name, shown
from hypar.files.record import Record
from hypar.plan.score import Amount
from hypar.sharding.dims import CUTTABLE
from hypar.sharding.placement import ALONE, WHOLE, Choice, grid

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

Degrees = dict[Literal[CUTTABLE], Annotated[int, Field(ge=1)]]  # type: ignore[valid-type]
Share = Annotated[float, Field(ge=0, le=1)]

WHOLE_ARRAY = "all"
"""The group of all devices."""

MOST_FORKS = 16
"""Forks one inside the other."""


FLUSHES = {"layer-block": False, "gpipe": True, "1f1b": True}
"""The schedules of stages, and whether the pipeline runs empty after each mini-batch, so that no weights are stale."""


def _known_schedule(name: str) -> str:
    """A schedule that there is."""
    if name not in FLUSHES:
        raise ValueError(", ".join(FLUSHES))
    return name


class StageRecord(Record):
    """One stage of a pipeline.

    Attributes:
        layers: its layers that are cut.
        busy_s: seconds that a mini-batch keeps it busy.
        in_flight: microbatches whose activations it keeps at most.
        staleness: by how many mini-batches the weights that a forward reads are behind at most.
    """

    layers: Annotated[list[str], Field(min_length=1)]
    busy_s: Amount
    in_flight: Annotated[int, Field(ge=0)]
    staleness: Annotated[int, Field(ge=0)]


class StagesRecord(Record):
    """Stages over the split outside all levels.

    Attributes:
        asked: how many were asked for, or ``best``.
        array: for ``best``, ways of the levels over which stages and cuts were tried.
        solver: the solver that was asked for; None for the cheapest exact one of each stage.
        schedule: in what order they work.
        microbatches: of a mini-batch.
        bottleneck_s: seconds that a mini-batch keeps the costliest busy.
        stages: first to last.
    """

    asked: Annotated[int, Field(ge=2)] | Literal["best"]
    array: list[Annotated[int, Field(ge=2)]] | None = None
    solver: str | None = None
    schedule: Annotated[str, AfterValidator(_known_schedule)]
    microbatches: Annotated[int, Field(ge=1)]
    bottleneck_s: Amount
    stages: Annotated[list[StageRecord], Field(min_length=1)]

    def require_as_asked(self) -> None:
        """Refuse what does not go together.

        Raises:
            ValueError: it does not.
        """
        best, count = self.asked == "best", len(self.stages)
        if not best and self.asked != count:
            raise ValueError(f"stages.asked: found {self.asked}; allowed: {count}, as there are, or best")
        if best is (self.array is None):
            allowed = "one where the best were asked for, and nowhere else"
            raise ValueError(f"stages.array: found {shown(self.array)}; allowed: {allowed}")
        if not FLUSHES[self.schedule] and self.microbatches > 1:
            allowed = f"1, as {self.schedule!r} takes whole mini-batches"
            raise ValueError(f"stages.microbatches: found {self.microbatches}; allowed: {allowed}")
        if len({*self.layers}) < len(self.layers):
            raise ValueError("stages: found a layer twice; allowed: each once")

    @property
    def layers(self) -> tuple[str, ...]:
        """The layers of all stages."""
        return tuple(layer for stage in self.stages for layer in stage.layers)


class SideRecord(Record):
    """What a fork is to one of its sides, in the cost's unit.

    Attributes:
        group: its name.
        received: cost of what it receives at the fork.
        computed: cost of what it computes, on all its devices together.
    """

    group: str
    received: Amount
    computed: Amount


class Split(Record):
    """One split of the array: the choice and the cost of every layer.

    Attributes:
        level: 0 for the outermost.
        group: which groups of the level it stands for; ``all`` on an array of like devices.
        ways: into how many parts it splits a group.
        shares: the share of each part, summing to 1; a part without any is idle.
        choices: for each layer the degree of each dim that is divided; none for a join done whole, a batch of
            one part for a layer that one device does.
        costs: for each layer what it and the tensors it reads cost, in all groups together.
        cost: their sum.
        sides: of a fork, a split into unlike groups, each of them; None where the parts are alike.
        layer_shares: of a fork, the layers that have other shares than the fork's.
    """

    level: Annotated[int, Field(ge=0)]
    group: str
    ways: Annotated[int, Field(ge=2)]
    shares: list[Share]
    choices: Annotated[dict[str, Degrees], Field(min_length=1)]
    costs: dict[str, Amount]
    cost: Amount
    sides: list[SideRecord] | None = None
    layer_shares: dict[str, list[Share]] | None = None

    def require_whole(self, layers: Collection[str]) -> None:
        """Refuse other layers than those of level 0, and choices or shares that do not fit the ways.

        Raises:
            ValueError: it does.
        """
        here = f"splits[{self.level}]"
        if not set(self.choices) == set(self.costs) == set(layers):
            raise ValueError(f"{here}: its choices, its costs and level 0 name different layers")
        if len(self.shares) != self.ways or abs(math.fsum(self.shares) - 1) > 1e-9:
            raise ValueError(f"{here}.shares: found {shown(self.shares)}; allowed: {self.ways} that sum to 1")
        for layer, shares in (self.layer_shares or {}).items():
            if layer not in layers or len(shares) != self.ways or abs(math.fsum(shares) - 1) > 1e-9:
                place = field_name(("splits", self.level, "layer_shares", layer))
                raise ValueError(
                    f"{place}: found {shown(shares)}; allowed: {self.ways} that sum to 1, of a layer"
                )
        if (self.sides is None and self.layer_shares) or len(self.sides or self.shares) != self.ways:
            raise ValueError(f"{here}.sides: found {len(self.sides or ())}; allowed: one a part of a fork")
        for layer, degrees in self.choices.items():
            if self.sides is not None and [*degrees.values()] not in ([], [self.ways]):
                place = field_name(("splits", self.level, "choices", layer))
                allowed = f"one dim over all {self.ways} sides of a fork"
                raise ValueError(f"{place}: found {shown(degrees)}; allowed: {allowed}")
            product = math.prod(degrees.values())
            alone = 1 in degrees.values() and degrees != ALONE.as_degrees()
            if alone or product > self.ways or any(self.ways % degree for degree in degrees.values()):
                allowed = (
                    f"degrees that divide {self.ways} ways, at most {self.ways} devices; batch 1 for one"
                )
                place = field_name(("splits", self.level, "choices", layer))
                raise ValueError(f"{place}: found {shown(degrees)}; allowed: {allowed}")

    def shares_of(self, layer: str) -> tuple[float, ...]:
        """The share of each part of a layer."""
        return tuple((self.layer_shares or {}).get(layer, self.shares))

    def choice(self, layer: str) -> Choice:
        """What the level does to a layer."""
        return _choice(tuple(self.choices[layer].items()))

    def dim(self, layer: str) -> str | None:
        """The dim in which a layer is cut, several joined by ``*``; None where none is."""
        return "*".join(self.choice(layer).divided) or None


@lru_cache(maxsize=4096)
def _choice(degrees: tuple[tuple[str, int], ...]) -> Choice:
    """What degrees stand for; layers and levels have few different ones."""
    return grid(dict(degrees)) if degrees else WHOLE


class Group(NamedTuple):
    """Like devices of a plan.

    Attributes:
        name: ``all`` where there are no others.
        forks: the forks above, outermost first, each with the number of the side that the group is of.
        splits: its own splits, outermost first.
    """

    name: str
    forks: tuple[tuple[Split, int], ...]
    splits: tuple[Split, ...]

    @property
    def array(self) -> tuple[int, ...]:
        """Ways of each of its own levels."""
        return tuple(split.ways for split in self.splits)

    @property
    def idle(self) -> bool:
        """Whether it has nothing to do."""
        return any(not fork.shares[side] for fork, side in self.forks)


def groups_of(splits: Sequence[Split]) -> tuple[Group, ...]:
    """The groups of like devices, by the order of the forks' sides.

    Raises:
        ValueError: the splits are not those of one tree of groups.
    """
    by_group: dict[str, list[Split]] = {}
    for split in splits:
        by_group.setdefault(split.group, []).append(split)
    found = tuple(_groups(WHOLE_ARRAY, (), by_group))
    if by_group:
        raise ValueError(f"splits: found group {shown(next(iter(by_group)))}, which is of no fork")
    names = [group.name for group in found]
    if len({*names}) < len(names):
        raise ValueError(f"splits: found groups {shown(names)}; allowed: each once")
    return found


def _groups(
    name: str, forks: tuple[tuple[Split, int], ...], by_group: dict[str, list[Split]]
) -> Iterator[Group]:
    """The groups below one."""
    if len(forks) > MOST_FORKS:
        raise ValueError(f"splits: found more than {MOST_FORKS} forks, one inside the other")
    own = by_group.pop(name, [])
    levels = [split.level for split in own]
    if levels != list(range(len(forks), len(forks) + len(own))):
        raise ValueError(
            f"splits of {shown(name)}: found levels {levels}; allowed: from {len(forks)} on, each once"
        )
    if not any(split.sides for split in own):
        yield Group(name, forks, tuple(own))
        return
    if len(own) > 1:
        raise ValueError(f"splits of {shown(name)}: found {len(own)}; allowed: one, as its parts are unlike")
    for side, record in enumerate(own[0].sides or ()):
        yield from _groups(record.group, (*forks, (own[0], side)), by_group)


def stage_name(stage: int) -> str:
    """The resource that a stage is; people count from 1."""
    return f"stage {stage + 1}"


RULES = ("equal", "linear", "exact")
"""How the shares of a fork may be found."""
