"""Plan: what was decided, what it costs, and everything needed to decide it again.

Written as versioned JSON, described in ``docs/plans.md``. A plan knows nothing of networks: showing and
comparing plans needs no model file.
"""

from __future__ import annotations

import math
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from hypar.errors import OptionError, PlanError, UnknownNameError, Where, field_name, shown
from hypar.files.json_file import format_json, read_json
from hypar.files.record import Record
from hypar.files.text import write_text
from hypar.files.validation import validated
from hypar.plan.chunks import ChunksRecord
from hypar.plan.score import Amount, Score
from hypar.plan.splits import Group, Split, StagesRecord, groups_of, stage_name
from hypar.registry import load_plugin
from hypar.sharding.space import parse_space

if TYPE_CHECKING:
    from hypar.sharding.placement import Choice

MOST_DEVICES = 2**20
"""Devices of an array: 20 two-way levels."""

Operators = Literal["operators"]


class ModelRecord(Record):
    """Which network was planned, and for which mini-batch."""

    name: str
    digest: str
    batch: Annotated[int, Field(ge=1)]


class ProfileRecord(Record):
    """Which table of measured times was read."""

    name: str
    digest: str


class CostRecord(Record):
    """What was minimised and what came out."""

    name: str
    value: Amount
    unit: str
    parameters: dict[str, int | float | str] = Field(default_factory=dict)


class RefinementRecord(Record):
    """What refinement against the engine changed.

    Attributes:
        before_s: the engine's time of the plan that was searched.
        after_s: that of the refined plan.
        changed: choices that differ.
    """

    before_s: Amount
    after_s: Amount
    changed: Annotated[int, Field(ge=0)]


SEARCHED = "search"
"""What the search's own plan is called beside baselines."""


class BaselinesRecord(Record):
    """What the engine timed beside the search's plan.

    Attributes:
        taken: whose plan it is: a strategy's by its name, or ``search``.
        step_s: the engine's time of the search's plan and of each baseline, before any refinement.
    """

    taken: str
    step_s: Annotated[dict[str, Amount], Field(min_length=2)]

    @model_validator(mode="after")
    def _timed(self) -> Self:
        """The search's plan was timed, and so was the plan that was taken."""
        if SEARCHED not in self.step_s:
            raise ValueError(f"baselines.step_s: found no {SEARCHED!r}; allowed: it and strategies")
        if self.taken not in self.step_s:
            allowed = ", ".join(self.step_s)
            raise ValueError(f"baselines.taken: found {shown(self.taken)}; allowed: {allowed}")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """The strategies that were timed."""
        return tuple(name for name in self.step_s if name != SEARCHED)


Ways = list[Annotated[int, Field(ge=2)]]


class Plan(Record):
    """A choice for every layer at every level.

    Attributes:
        schema_: version of the format.
        model: the network.
        graph: ``operators`` where pools are planned too; None for weighted layers and joins alone.
        strategy: the name under which it was planned.
        space: the choices that were allowed.
        search: how the levels were gone through.
        solver: what solved the cost graphs.
        array: ways of each level, outermost first; empty for a mixed machine.
        arrays: for a mixed machine, the ways of each level inside each group of like devices.
        shares: for a mixed machine, how the shares of its forks were found.
        integral: for a mixed machine, whether shares are of whole elements; None where they need not be.
        path: for a mixed machine, the groups whose splits the cost sums, the slowest ones; None where it sums all.
        pins: choices that were held, as ``layer@level=dim``.
        profile: the measured times that the cost counted; None where it counted none.
        bounds: what the cost is at least, over all levels or level by level; None where the solver is exact or
            states none.
        cost: what was minimised.
        claim: what the plan is optimal over.
        stages: the stages of a pipeline, each cut over devices of its own; None where there are none.
        splits: one for each level, outermost first; of a mixed machine those of a group before those of its sides.
        baselines: known strategies that the engine timed beside the search's plan, the fastest of which this is;
            None where none were.
        refined: what refinement against the engine changed; None where none was asked for.
        chunks: the layers that exchange their gradients together; None where none were asked for.
        score: what a machine makes of it; None where none was named.
    """

    model_config = ConfigDict(populate_by_name=True)

    schema_: Literal["hypar.plan/1"] = Field(default="hypar.plan/1", alias="schema")
    model: ModelRecord
    graph: Operators | None = None
    strategy: str
    space: str
    search: str
    solver: str
    array: Ways
    arrays: dict[str, Ways] | None = None
    shares: str | None = None
    integral: Literal[True] | None = None
    path: list[str] | None = None
    pins: list[str] = Field(default_factory=list)
    profile: ProfileRecord | None = None
    bounds: list[Amount] | None = None
    cost: CostRecord
    claim: str
    stages: StagesRecord | None = None
    splits: list[Split]
    baselines: BaselinesRecord | None = None
    refined: RefinementRecord | None = None
    chunks: ChunksRecord | None = None
    score: Score | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        """Every level once, every split with the same layers, every choice and share as the level has ways."""
        if not self.splits and self.stages is None:
            raise ValueError("splits: found []; allowed: at least 1 where there are no stages")
        if math.prod(self.array) > MOST_DEVICES:
            ways = "x".join(str(ways) for ways in self.array)
            raise ValueError(f"array: found {ways:.60}; allowed: at most {MOST_DEVICES:,} devices")
        if not self.mixed and [(split.level, split.ways) for split in self.splits] != [
            *enumerate(self.array)
        ]:
            raise ValueError(
                f"splits do not match the array {self.array}; allowed: one a level, outermost first"
            )
        if self.stages is not None:
            self._require_stages(self.stages)
        for split in self.splits:
            split.require_whole(self.layers)
        if self.mixed:
            self._require_groups()
        elif (
            self.arrays is not None
            or self.path is not None
            or {split.group for split in self.splits} - {"all"}
        ):
            raise ValueError(
                "splits: found groups without a fork; allowed: group 'all', no arrays and no path"
            )
        self._require_bounds()
        self._require_timed()
        parse_space(self.space)
        return self

    def _require_timed(self) -> None:
        """Refuse chunks and baselines of a plan that cannot have them.

        Raises:
            ValueError: there are such.
        """
        if self.baselines is not None and (self.mixed or self.staged or self.score is None):
            found = "found in stages or of unlike groups" if self.score else "found without a score"
            raise ValueError(f"baselines: {found}; allowed: none")
        if self.chunks is not None:
            if self.stages is not None:
                raise ValueError("chunks: found together with stages; allowed: one of the two")
            self.chunks.require_of(self.layers, scored=self.score is not None)

    def _require_stages(self, stages: StagesRecord) -> None:
        """Refuse stages that do not have every layer once, in order.

        Raises:
            ValueError: they do not.
        """
        stages.require_as_asked()
        count = len(stages.stages)
        if self.splits and stages.layers != tuple(self.splits[0].choices):
            raise ValueError("stages: found other layers than those of level 0; allowed: each once, in order")
        if self.model.batch % stages.microbatches:
            found, allowed = f"{stages.microbatches:,}", f"a divisor of the batch {self.model.batch:,}"
            raise ValueError(f"stages.microbatches: found {found}; allowed: {allowed}")
        devices = max(count * math.prod(self.array), math.prod(stages.array or ()))
        if devices > MOST_DEVICES or self.mixed or self.score is None:
            allowed = f"at most {MOST_DEVICES:,} devices, all alike, and a score"
            raise ValueError(f"stages: found {count}; allowed: {allowed}")
        if count > 1 and [group.group for group in self.score.groups or ()] != [
            *map(stage_name, range(count))
        ]:
            raise ValueError(
                f"score.groups: found others than the stages; allowed: {count}, one a stage, in order"
            )
        if count == 1 and (self.array != stages.array or self.score.groups is not None):
            raise ValueError(f"stages: found 1 over {self.array}; allowed: {stages.array}, and no groups")

    def _require_groups(self) -> None:
        """Refuse groups that do not hang together.

        Raises:
            ValueError: they do not.
        """
        if self.array or self.score is None:
            what = f"array: found {self.array}" if self.array else "score: found none"
            raise ValueError(f"{what}; allowed: no array and a score, as the groups are unlike")
        arrays, groups = self.arrays or {}, groups_of(self.splits)
        for group in groups:
            planned = [split.ways for split in group.splits]
            if group.idle and planned:
                found = f"found {len(planned)} of a group without a share"
                raise ValueError(f"splits of {shown(group.name)}: {found}; allowed: none")
            if not group.idle and arrays.get(group.name) != planned:
                found = shown(arrays.get(group.name))
                raise ValueError(f"arrays.{group.name}: found {found}; allowed: {planned}, as its splits")
        # What is below an idle fork has no splits that would name it.
        names = [group.name for group in groups]
        others = [name for name in arrays if name not in names]
        if others and not any(group.idle and group.name not in arrays for group in groups):
            raise ValueError(f"arrays: found {shown(others[0])}; allowed: {', '.join(names)}")
        if sum(map(math.prod, arrays.values())) > MOST_DEVICES:
            raise ValueError(f"arrays: found too many devices; allowed: at most {MOST_DEVICES:,}")
        known = {split.group for split in self.splits} | {*arrays}
        for name in self.path or ():
            if name not in known:
                raise ValueError(f"path: found {shown(name)}; allowed: {', '.join(sorted(known))}")

    def _require_bounds(self) -> None:
        """Refuse bounds above the costs that they are bounds of, but for rounding.

        Raises:
            ValueError: one is, or there are others than one, or one a level.
        """
        bounds = self.bounds or ()
        costs = [self.cost.value] if len(bounds) == 1 else [split.cost for split in self.splits]
        if self.bounds is not None and len(bounds) != len(costs):
            allowed = f"1, or {len(costs)}, one a level"
            raise ValueError(f"bounds: found {len(bounds)}; allowed: {allowed}")
        for number, (bound, cost) in enumerate(zip(bounds, costs, strict=False)):
            if bound > cost and not math.isclose(bound, cost, rel_tol=1e-9):
                raise ValueError(f"bounds[{number}]: found {bound:,}; allowed: at most {cost:,}, the cost")

    @property
    def staged(self) -> bool:
        """Whether it has stages, and not all layers in one."""
        return self.stages is not None and len(self.stages.stages) > 1

    @property
    def mixed(self) -> bool:
        """Whether it is for a mixed machine."""
        return any(split.sides is not None for split in self.splits)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The groups of like devices; one, ``all``, where all are alike."""
        return groups_of(self.splits)

    @property
    def summed(self) -> tuple[Split, ...]:
        """The splits whose costs make up the plan's."""
        return tuple(split for split in self.splits if self.path is None or split.group in self.path)

    @property
    def layers(self) -> tuple[str, ...]:
        """Names of the layers that are cut, in topological order."""
        return tuple(self.splits[0].choices) if self.splits or self.stages is None else self.stages.layers

    @property
    def num_devices(self) -> int:
        """Devices of the array, in all stages; of a mixed machine those that work."""
        stages = 1 if self.stages is None else len(self.stages.stages)
        return stages * sum(math.prod(group.array) for group in self.groups if not group.idle)

    def dims(self, layer: str, group: str | None = None) -> tuple[str | None, ...]:
        """The dim in which a layer is cut at each level, several joined by ``*``; None where none is.

        Args:
            layer: its name.
            group: for a mixed machine, the group of like devices whose levels are meant.

        Raises:
            UnknownNameError: no layer of that name is cut, or there is no such group.
        """
        self._require(layer)
        return tuple(split.dim(layer) for split in self.levels_of(group))

    def choices(self, layer: str, group: str | None = None) -> tuple[Choice, ...]:
        """The choice of a layer at each level; arguments as of ``dims``.

        Raises:
            UnknownNameError: no layer of that name is cut, or there is no such group.
        """
        self._require(layer)
        return tuple(split.choice(layer) for split in self.levels_of(group))

    def levels_of(self, group: str | None = None) -> tuple[Split, ...]:
        """The splits that a group of like devices is in, outermost first.

        Raises:
            UnknownNameError: there is no such group, or several and none is named.
        """
        names = [found.name for found in self.groups]
        name = names[0] if group is None and len(names) == 1 else group
        if name not in names:
            raise UnknownNameError("group", str(group or ""), names)
        found = self.groups[names.index(name)]
        return (*(fork for fork, _ in found.forks), *found.splits)

    @property
    def in_grids(self) -> bool:
        """Whether a level may divide several dims at once, or leave devices idle."""
        return (
            not self.mixed
            and parse_space(self.space).grids
            and (
                max(self.array, default=1) > 2
                or any(self.devices(layer) < math.prod(self.array) for layer in self.layers)
            )
        )

    def devices(self, layer: str) -> int:
        """How many devices work for a layer.

        Raises:
            UnknownNameError: no layer of that name is cut.
        """
        self._require(layer)
        return sum(
            math.prod(split.choice(layer).devices(split.ways) for split in group.splits)
            for group in self.groups
            if all(fork.shares_of(layer)[side] for fork, side in group.forks)
        )

    def _require(self, layer: str) -> None:
        """Refuse a layer that there is none of."""
        if layer not in self.layers:
            raise UnknownNameError("layer", layer, self.layers)

    def to_data(self) -> dict[str, Any]:
        """The plan as plain data, without what it does not have."""
        data = self.model_dump(mode="json", by_alias=True)
        data["splits"] = [_given(split) for split in data["splits"]]
        if self.stages is not None:
            data["stages"] = _given(data["stages"])
        if self.score is not None:
            data["score"] = self.score.to_data()
        return _given(data)

    def to_json(self) -> str:
        """The plan file's text; the same plan is the same bytes."""
        return format_json(self.to_data()) + "\n"

    def write(self, file: str | Path) -> None:
        """Write the plan whole or not at all.

        Raises:
            DocumentError: the folder is missing or cannot be written to.
        """
        write_text(Path(file), self.to_json())

    def render(self, report: str = "table") -> str:
        """The plan as a report writes it: ``table``, ``markdown`` or ``html``.

        Raises:
            UnknownNameError: there is no such report.
        """
        text: str = load_plugin("reports", report).render(self)
        return text

    def __repr__(self) -> str:
        """A readable table, as in a terminal."""
        return self.render()

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """A coloured grid, as in a notebook."""
        return self.render("html")


def _given(data: dict[str, Any]) -> dict[str, Any]:
    """Plain data without what it does not have."""
    return {key: value for key, value in data.items() if value is not None}


SCHEMA: str = Plan.model_fields["schema_"].default
"""The one format that is written and read."""


def read_plan(file: str | Path) -> Plan:
    """Read a plan file.

    Raises:
        InputError: it is missing, damaged, or of another schema.
    """
    path = Path(file)
    data = read_json(path)
    if not isinstance(data, dict):
        raise PlanError(str(path), f"found {shown(data)}", "an object")
    schema = data.get("schema")
    if schema != SCHEMA:
        hint = "it was written by a newer hypar" if _is_newer(schema) else ""
        raise PlanError(f"{path}: schema", f"found {shown(schema)}", SCHEMA, hint)

    def place(where: Where) -> str:
        return f"{path}: {field_name(where)}" if where else str(path)

    try:
        return validated(Plan, data, place=place, error=PlanError)
    except OptionError as error:
        raise PlanError(f"{path}: space", error.found, error.allowed) from None


def _is_newer(schema: object) -> bool:
    """Whether a schema is a later version of this one."""
    family, _, version = SCHEMA.partition("/")
    found, _, number = str(schema).partition("/")
    return (
        found == family
        and number.isascii()
        and number.isdigit()
        and (len(number), number) > (len(version), version)
    )
