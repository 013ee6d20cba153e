"""The content of a plan: what was asked, the tree that was decided, and what follows from them alone."""

# Annotations are not postponed here: pydantic would parse the text of each one at every start.

import math
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, PlainSerializer

from hypar.errors import UnknownNameError
from hypar.files.record import Record
from hypar.plan.records import (
    BaselinesRecord,
    ChunksRecord,
    CostRecord,
    FilesRecord,
    LimitsRecord,
    ModelRecord,
    Operators,
    ProfileRecord,
    Recorded,
    RefinementRecord,
)
from hypar.plan.score import Score
from hypar.plan.stages import StagesRecord
from hypar.sharding.placement import Choice
from hypar.sharding.space import parse_space
from hypar.sharding.tree import MOST_DEVICES, Amount, Group, Node, Split, groups_of, splits_of, tree_of


def _few(array: list[int]) -> list[int]:
    if math.prod(array) > MOST_DEVICES:
        raise ValueError(f"at most {MOST_DEVICES:,} devices")
    return array


Ways = Annotated[list[Annotated[int, Field(ge=2)]], AfterValidator(_few)]


def rooted(splits: Sequence[Split], stages: StagesRecord | None) -> Node:
    """Return the tree of splits that are listed and of the stages of a plan.

    Raises:
        ValueError: they form no tree.
    """
    for found in () if stages is None else stages.faults():
        raise ValueError(found)
    if stages is None or not (stages.pipelined or stages.groups):
        return tree_of(splits)
    each = [(stage.group, stage.layers) for stage in stages.stages]
    return tree_of(splits, each, stages.outside or 0)


def _listed(root: Node) -> list[Split]:
    return [*splits_of(root)]


if TYPE_CHECKING:
    Root = Node
else:
    Root = Annotated[list[Split], PlainSerializer(_listed, return_type=list[Split])]


class PlanContent(Record):
    """The fields of a plan, described at ``Plan``, and what follows from them; they need not agree."""

    model_config = ConfigDict(populate_by_name=True)

    schema_: Literal["hypar.plan/2"] = Field(alias="schema")
    model: ModelRecord
    graph: Operators | None = None
    strategy: str
    space: str
    search: str
    solver: str
    array: Ways
    arrays: dict[str, Ways] | None = None
    shares: str | None = None
    path: list[str] | None = None
    pins: list[str]
    profile: ProfileRecord | None = None
    files: FilesRecord | None = None
    bounds: list[Amount] | None = None
    limits: LimitsRecord | None = None
    convention: Recorded = None
    cost: CostRecord
    claim: str
    stages: StagesRecord | None = None
    root: Root = Field(alias="splits")
    baselines: BaselinesRecord | None = None
    refined: RefinementRecord | None = None
    chunks: ChunksRecord | None = None
    score: Score | None = None

    @property
    def staged(self) -> bool:
        """Return whether it has stages that form a pipeline."""
        return self.stages is not None and self.stages.pipelined

    @property
    def uneven(self) -> bool:
        """Return whether it has uneven splits."""
        return any(split.sides is not None for split in self.splits)

    @property
    def heterogeneous(self) -> bool:
        """Return whether it is for a heterogeneous machine: with uneven splits, or with stages on its groups."""
        return self.uneven or bool(self.stages is not None and self.stages.groups)

    @cached_property
    def splits(self) -> list[Split]:
        """Return the splits of the tree, a group's before its subgroups'."""
        return [*splits_of(self.root)]

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """Return the groups of identical devices; the one group ``all`` if all devices are identical."""
        return tuple(groups_of(self.root))

    @cached_property
    def _group_of(self) -> dict[str, str]:
        """The device group of each layer whose stage is on one."""
        stages = () if self.stages is None else self.stages.stages
        return {layer: stage.group for stage in stages if stage.group is not None for layer in stage.layers}

    @property
    def summed(self) -> tuple[Split, ...]:
        """Return the splits whose costs sum to the plan's."""
        return tuple(split for split in self.splits if self.path is None or split.group in self.path)

    @property
    def layers(self) -> tuple[str, ...]:
        """Names of the layers that are cut, in topological order."""
        return tuple(self._named)

    @property
    def _named(self) -> Collection[str]:
        if self.stages is not None and (self.stages.groups or not self.splits):
            return self.stages.layers
        return self.splits[0].choices

    @property
    def num_devices(self) -> int:
        """Return the number of devices in all stages; on a heterogeneous machine without the idle ones."""
        stages = 1 if self.stages is None else self.stages.of_each_group
        return stages * sum(math.prod(group.array) for group in self.groups if not group.idle)

    def dims(self, layer: str, group: str | None = None) -> tuple[str | None, ...]:
        """Return the dim in which a layer is cut at each level, several joined by ``*``; None if it is not cut.

        Args:
            layer: name of the layer.
            group: for a heterogeneous machine, the group of identical devices whose levels are meant.

        Raises:
            UnknownNameError: no layer of that name is cut, or there is no such group.
        """
        self._require(layer)
        return tuple(split.dim(layer) for split in self.levels_of(group or self._group_of.get(layer)))

    def choices(self, layer: str, group: str | None = None) -> tuple[Choice, ...]:
        """Return the choice of a layer at each level; ``dims`` describes the arguments.

        Raises:
            UnknownNameError: no layer of that name is cut, or there is no such group.
        """
        self._require(layer)
        return tuple(split.choice(layer) for split in self.levels_of(group or self._group_of.get(layer)))

    def levels_of(self, group: str | None = None) -> tuple[Split, ...]:
        """Return the splits above and inside a group of identical devices, outermost first.

        Raises:
            UnknownNameError: there is no such group, or several and none is named.
        """
        names = [found.name for found in self.groups]
        name = names[0] if group is None and len(names) == 1 else group
        if name not in names:
            raise UnknownNameError("group", str(group or ""), names)
        found = self.groups[names.index(name)]
        return (*(uneven for uneven, _ in found.above), *found.splits)

    @property
    def in_grids(self) -> bool:
        """Return whether a level may divide several dims at once, or leave devices idle."""
        return (
            not self.heterogeneous
            and parse_space(self.space, self.model.dims or ()).grids
            and (
                max(self.array, default=1) > 2
                or any(self.devices(layer) < math.prod(self.array) for layer in self.layers)
            )
        )

    def devices(self, layer: str) -> int:
        """Count the devices that work for a layer.

        Raises:
            UnknownNameError: no layer of that name is cut.
        """
        self._require(layer)
        return sum(
            math.prod(split.choice(layer).devices(split.ways) for split in group.splits)
            for group in self.groups
            if self._group_of.get(layer, group.root) == group.root
            and all(uneven.shares_of(layer)[group] for uneven, group in group.above)
        )

    def _require(self, layer: str) -> None:
        """Refuse a layer that there is none of."""
        if layer not in self._named:
            raise UnknownNameError("layer", layer, self.layers)
