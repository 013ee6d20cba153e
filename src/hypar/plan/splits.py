"""The splits that a plan records, and the tree of device groups that they form."""

# Annotations are not postponed here: pydantic would parse the text of each one at every start.

import math
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, groupby, pairwise
from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, Field

from hypar.errors import field_name, shown
from hypar.files.record import Record
from hypar.network.dims import CUTTABLE, NAME
from hypar.plan.score import Amount
from hypar.sharding.numbering import digits_of
from hypar.sharding.placement import ALONE, WHOLE, Choice, grid, numbered


def _known_dim(dim: str) -> str:
    if dim not in CUTTABLE and not NAME.fullmatch(dim):
        raise ValueError(", ".join(map(repr, CUTTABLE)))
    return dim


Dim = Annotated[str, AfterValidator(_known_dim)]
Degrees = dict[Dim, Annotated[int, Field(ge=1)]]
Digit = Annotated[dict[Dim, Annotated[int, Field(ge=2)]], Field(min_length=1, max_length=1)]
"""A run of digits of a device's number: the dim that it divides, and its degree."""

Share = Annotated[float, Field(ge=0, le=1)]

WHOLE_ARRAY = "all"
"""The group of all devices."""

MOST_UNEVEN_SPLITS = 16
"""Nested uneven splits, at most."""


INTERLEAVED = "interleaved"
"""The schedule in which each stage works for several parts of the network."""

FLUSHES = {"layer-block": False, "gpipe": True, "1f1b": True, INTERLEAVED: True}
"""The schedules of stages, and whether the pipeline runs empty after each mini-batch, so that no weights are stale."""


BALANCES = {"time": "seconds", "memory": "bytes", "traffic": "bytes", "macs": "MACs"}
"""The quantities of the costliest stage that a partition can minimise, with their units."""


def _known_schedule(name: str) -> str:
    if name not in FLUSHES:
        raise ValueError(", ".join(FLUSHES))
    return name


def _known_balance(name: str) -> str:
    if name not in BALANCES:
        raise ValueError(", ".join(BALANCES))
    return name


class StageRecord(Record):
    """One stage of a pipeline.

    Attributes:
        group: on a heterogeneous machine, the device group that it is on; None on identical devices.
        layers: its layers that are cut.
        parts: the number of these layers in each of its parts, which are apart from each other; None for one part.
        busy_s: seconds that a mini-batch keeps it busy.
        in_flight: the largest number of microbatches whose activations it keeps; each counts once for every part.
        staleness: the largest number of mini-batches by which the weights of a forward are out of date.
    """

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
    """Stages over the split outside all levels.

    Attributes:
        asked: the number of stages requested, or ``best``.
        array: for ``best``, ways of the levels over which stages and cuts were tried; None on device groups.
        solver: the solver requested; None for the cheapest exact one of each stage.
        schedule: name of the order in which the stages work.
        parts: the number of parts of each stage; None for one.
        asked_microbatches: for ``best``, the number of microbatches requested; None if several were tried.
        starts: whether the first layers of the stages were given; None if the best partition was searched.
        balance: the quantity of the costliest stage that the partition minimises; None for time.
        bottleneck: cost of the costliest stage in the unit of that balance; None for time.
        outside: number of levels and uneven splits outside the stages; None for none.
        microbatches: number of microbatches of a mini-batch.
        bottleneck_s: seconds that a mini-batch keeps the busiest stage busy.
        arrays: for ``best`` on device groups, these ways inside each group of identical devices.
        stages: the stages, first to last.
    """

    asked: Annotated[int, Field(ge=1)] | Literal["best"]
    array: list[Annotated[int, Field(ge=2)]] | None = None
    solver: str | None = None
    schedule: Annotated[str, AfterValidator(_known_schedule)]
    parts: Annotated[int, Field(ge=2)] | None = None
    asked_microbatches: Annotated[int, Field(ge=1)] | None = None
    starts: Literal[True] | None = None
    balance: Annotated[str, AfterValidator(_known_balance)] | None = None
    bottleneck: Amount | None = None
    outside: Annotated[int, Field(ge=1)] | None = None
    microbatches: Annotated[int, Field(ge=1)]
    bottleneck_s: Amount
    arrays: dict[str, list[Annotated[int, Field(ge=2)]]] | None = None
    stages: Annotated[list[StageRecord], Field(min_length=1)]

    def require_as_asked(self) -> None:
        """Check that the request, the stages, the schedule and the microbatches agree.

        Raises:
            ValueError: they do not agree.
        """
        best, count = self.asked == "best", len(self.stages)
        if not best and self.asked != count:
            raise ValueError(f"stages.asked: found {self.asked}; allowed: {count}, as there are, or best")
        tried = [one for one in (self.array, self.arrays) if one is not None]
        if len(tried) != best:
            allowed = "one where the best were asked for, and nowhere else"
            raise ValueError(f"stages.array: found {shown(self.array)}; allowed: {allowed}")
        if self.outside is not None and best:
            raise ValueError(
                f"stages.outside: found {self.outside}; allowed: none where the best were asked for"
            )
        if self.asked_microbatches is not None and not best:
            allowed = "none where a number of stages was asked for"
            raise ValueError(
                f"stages.asked_microbatches: found {self.asked_microbatches}; allowed: {allowed}"
            )
        if self.starts and (best or self.balance is not None):
            other = "the best stages" if best else f"balance {self.balance!r}"
            raise ValueError(f"stages.starts: found together with {other}; allowed: one of the two")
        if (self.bottleneck is None) is (self.pipelined and self.balance not in {None, "time"}):
            allowed = "one in the unit of a balance other than time, and nowhere else"
            raise ValueError(f"stages.bottleneck: found {shown(self.bottleneck)}; allowed: {allowed}")
        if not FLUSHES[self.schedule] and self.microbatches > 1:
            allowed = f"1, as {self.schedule!r} takes whole mini-batches"
            raise ValueError(f"stages.microbatches: found {self.microbatches}; allowed: {allowed}")
        self._require_parts()
        if len({*self.layers}) < len(self.layers):
            raise ValueError("stages: found a layer twice; allowed: each once")
        self._require_groups()

    def _require_parts(self) -> None:
        """Check that every stage has the parts that the schedule needs.

        Raises:
            ValueError: one does not.
        """
        if (self.schedule == INTERLEAVED) is (self.parts is None):
            allowed = f"2 or more by {INTERLEAVED!r}, and nowhere else"
            raise ValueError(f"stages.parts: found {shown(self.parts)}; allowed: {allowed}")
        several = self.parts_of_each
        for number, stage in enumerate(self.stages):
            count = None if stage.parts is None else len(stage.parts)
            if count != several or (stage.parts and sum(stage.parts) != len(stage.layers)):
                allowed = f"{several} of {len(stage.layers)} layers" if several else "none"
                raise ValueError(
                    f"stages.stages[{number}].parts: found {shown(stage.parts)}; allowed: {allowed}"
                )
        if several and self.microbatches % len(self.stages):
            allowed = f"a multiple of the {len(self.stages)} stages"
            raise ValueError(f"stages.microbatches: found {self.microbatches}; allowed: {allowed}")

    def _require_groups(self) -> None:
        """Check that each device group holds equally many consecutive stages.

        Raises:
            ValueError: one does not.
        """
        runs = [(name, len([*own])) for name, own in groupby(stage.group for stage in self.stages)]
        names = [name for name, _ in runs]
        if len({*runs}) != len(runs) or len({count for _, count in runs}) > 1 or (None in names and runs[1:]):
            allowed = "equally many consecutive stages on each group, or no groups"
            raise ValueError(f"stages.stages: found the groups {shown(names)}; allowed: {allowed}")
        if self.groups and self.array is not None:
            raise ValueError(
                "stages.array: found one of identical devices; allowed: stages.arrays, as there are groups"
            )

    @property
    def groups(self) -> tuple[str, ...]:
        """Return the device groups that hold the stages, first to last; empty on identical devices."""
        return tuple(dict.fromkeys(stage.group for stage in self.stages if stage.group is not None))

    @property
    def of_each_group(self) -> int:
        """Return the number of stages on each device group; all on identical devices."""
        return len(self.stages) // max(1, len(self.groups))

    def layers_of(self, group: str) -> tuple[str, ...]:
        """Return the layers of the stages on a device group."""
        return tuple(layer for stage in self.stages if stage.group == group for layer in stage.layers)

    @property
    def pipelined(self) -> bool:
        """Return whether the stages form a pipeline; they do not where ``best`` found none to be faster."""
        return self.asked != "best" or len(self.stages) > 1

    @property
    def parts_of_each(self) -> int | None:
        """Return the number of parts of each stage in the pipeline; None for one."""
        return self.parts if self.pipelined else None

    @property
    def requested_microbatches(self) -> int | None:
        """Return the number of microbatches to request for the same plan."""
        return self.asked_microbatches if self.asked == "best" else self.microbatches

    @property
    def given_starts(self) -> tuple[str, ...]:
        """Return the first layers of the stages if they were given."""
        return tuple(layers[0] for _, layers in self.spans) if self.starts else ()

    @property
    def spans(self) -> tuple[tuple[StageRecord, tuple[str, ...]], ...]:
        """Return the parts of all stages in the network's order, each with its stage: consecutive layers."""
        each = [[*stage.spans] for stage in self.stages]
        return tuple(
            (stage, own[part])
            for part in range(len(each[0]))
            for stage, own in zip(self.stages, each, strict=True)
        )

    @property
    def layers(self) -> tuple[str, ...]:
        """Return the layers of all stages, in the network's order."""
        return tuple(layer for _, layers in self.spans for layer in layers)


class GroupRecord(Record):
    """The costs of one device group of an uneven split, in the cost's unit.

    Attributes:
        group: name of the group.
        received: cost of the elements that it receives from the other groups.
        computed: cost of its computation, on all its devices together.
    """

    group: str
    received: Amount
    computed: Amount


class Split(Record):
    """One split of the array: the choice and the cost of every layer.

    Attributes:
        level: number of the level, 0 for the outermost.
        group: name of the groups that are split; ``all`` on an array of identical devices.
        ways: number of groups that result.
        shares: the share of each of them, summing to 1; one without a share is idle.
        choices: for each layer the degree of each dim that is divided; none for a join that every device computes
            whole, batch 1 for a layer that one device computes.
        numbering: for each layer with several dims the digits of its devices' numbers, outermost first; None where all
            layers number their devices alike, through the dims of their choices.
        costs: for each layer the cost of it and of the tensors that it reads, in all groups together.
        cost: their sum.
        sides: for an uneven split, its device groups; None for an even split.
        layer_shares: for an uneven split, the shares of layers that differ from ``shares``.
    """

    level: Annotated[int, Field(ge=0)]
    group: str
    ways: Annotated[int, Field(ge=2)]
    shares: list[Share]
    choices: Annotated[dict[str, Degrees], Field(min_length=1)]
    numbering: dict[str, list[Digit]] | None = None
    costs: dict[str, Amount]
    cost: Amount
    sides: list[GroupRecord] | None = None
    layer_shares: dict[str, list[Share]] | None = None

    def require_whole(self, layers: Collection[str]) -> None:
        """Check that the layers are those of level 0, and that choices and shares fit the ways.

        Raises:
            ValueError: they do not.
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
            allowed = "one for each group of an uneven split"
            raise ValueError(f"{here}.sides: found {len(self.sides or ())}; allowed: {allowed}")
        for layer, degrees in self.choices.items():
            if self.sides is not None and [*degrees.values()] not in ([], [self.ways]):
                place = field_name(("splits", self.level, "choices", layer))
                allowed = f"one dim over all {self.ways} groups of an uneven split"
                raise ValueError(f"{place}: found {shown(degrees)}; allowed: {allowed}")
            product = math.prod(degrees.values())
            alone = 1 in degrees.values() and degrees != ALONE.as_degrees()
            if alone or product > self.ways or any(self.ways % degree for degree in degrees.values()):
                allowed = (
                    f"degrees that divide {self.ways} ways, at most {self.ways} devices; batch 1 for one"
                )
                place = field_name(("splits", self.level, "choices", layer))
                raise ValueError(f"{place}: found {shown(degrees)}; allowed: {allowed}")
        if self.numbering is not None:
            self._require_numbering()

    def _require_numbering(self) -> None:
        """Check that the numberings have the degrees of their layers' choices, and common digits.

        Raises:
            ValueError: they do not.
        """
        for layer, digits in (self.numbering or {}).items():
            place = field_name(("splits", self.level, "numbering", layer))
            if layer not in self.choices or self.sides is not None:
                allowed = "layers that have a choice at an even split"
                raise ValueError(f"{place}: found {shown(layer)}; allowed: {allowed}")
            choice = numbered(pair for digit in digits for pair in digit.items())
            same = dict(choice.degrees) == self.choices[layer]
            if not choice.order or not same or math.prod(d for _, d in choice.order) != self.ways:
                allowed = (
                    f"several dims, with the degrees of its choice and a product of {self.ways} with copies"
                )
                raise ValueError(f"{place}: found {shown(digits)}; allowed: {allowed}")
        try:
            digits_of((self.ways,), tuple((self.choice(layer),) for layer in self.choices))
        except ValueError as error:
            raise ValueError(f"{field_name(('splits', self.level, 'numbering'))}: {error}") from None

    def shares_of(self, layer: str) -> tuple[float, ...]:
        """Return each group's share of a layer."""
        return tuple((self.layer_shares or {}).get(layer, self.shares))

    def choice(self, layer: str) -> Choice:
        """Return the choice of a layer, with its numbering."""
        order = () if self.numbering is None else self.numbering.get(layer, ())
        return _choice(
            tuple(self.choices[layer].items()), tuple(pair for digit in order for pair in digit.items())
        )

    def dim(self, layer: str) -> str | None:
        """Return the dim in which a layer is cut, several joined by ``*``; None if it is not cut."""
        return "*".join(self.choice(layer).divided) or None


@lru_cache(maxsize=4096)
def _choice(degrees: tuple[tuple[str, int], ...], order: tuple[tuple[str, int], ...]) -> Choice:
    """Return the choice of some degrees; layers and levels share few different ones."""
    if order:
        return numbered(order)
    return grid(dict(degrees)) if degrees else WHOLE


class Group(NamedTuple):
    """A group of identical devices of a plan.

    Attributes:
        name: its name; ``all`` for the only group.
        above: the uneven splits above, outermost first, each with the index of the group that contains this one.
        splits: its own splits, outermost first.
        root: the group at the root of its tree: ``all``, or with stages on device groups the one that holds its stages.
    """

    name: str
    above: tuple[tuple[Split, int], ...]
    splits: tuple[Split, ...]
    root: str = WHOLE_ARRAY

    @property
    def array(self) -> tuple[int, ...]:
        """Return the ways of each of its own levels."""
        return tuple(split.ways for split in self.splits)

    @property
    def idle(self) -> bool:
        """Return whether it has no share of the work."""
        return any(not split.shares[group] for split, group in self.above)


def groups_of(splits: Sequence[Split], roots: Sequence[str] = (WHOLE_ARRAY,)) -> tuple[Group, ...]:
    """Return the groups of identical devices, in the order of the uneven splits.

    Args:
        splits: the splits.
        roots: the groups that no split names: all devices, or the device groups that hold stages.

    Raises:
        ValueError: the splits do not form one tree of groups below each root.
    """
    by_group: dict[str, list[Split]] = {}
    for split in splits:
        by_group.setdefault(split.group, []).append(split)
    found = tuple(group._replace(root=root) for root in roots for group in _groups(root, (), by_group))
    if by_group:
        raise ValueError(f"splits: found group {shown(next(iter(by_group)))}, which no uneven split names")
    names = [group.name for group in found]
    if len({*names}) < len(names):
        raise ValueError(f"splits: found groups {shown(names)}; allowed: each once")
    return found


def _groups(
    name: str, above: tuple[tuple[Split, int], ...], by_group: dict[str, list[Split]]
) -> Iterator[Group]:
    """Yield the groups below one."""
    if len(above) > MOST_UNEVEN_SPLITS:
        raise ValueError(f"splits: found more than {MOST_UNEVEN_SPLITS} nested uneven splits")
    own = by_group.pop(name, [])
    levels = [split.level for split in own]
    if levels != list(range(len(above), len(above) + len(own))):
        raise ValueError(
            f"splits of {shown(name)}: found levels {levels}; allowed: from {len(above)} on, each once"
        )
    if not any(split.sides for split in own):
        yield Group(name, above, tuple(own))
        return
    if len(own) > 1:
        raise ValueError(f"splits of {shown(name)}: found {len(own)}; allowed: one, as it is an uneven split")
    for group, record in enumerate(own[0].sides or ()):
        yield from _groups(record.group, (*above, (own[0], group)), by_group)


def stage_name(stage: int) -> str:
    """Return the name of a stage and its resource, counted from 1."""
    return f"stage {stage + 1}"


def stage_of(group: str) -> int:
    """Return the number of the stage, from 0, that a group of a score belongs to; its name begins with the stage's."""
    return int(group.split()[1]) - 1


RULES = ("equal", "linear", "exact")
"""Rules that find the shares of an uneven split."""
