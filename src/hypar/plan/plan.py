"""The plan: the decisions, their cost, and the request that leads to them again.

A plan is written as versioned JSON, described in ``docs/plans.md``. It knows nothing of networks: showing and
comparing plans needs no model file.
"""

from __future__ import annotations

import math
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, ValidationError, model_validator

from hypar.errors import OptionError, PlanError, UnknownNameError, Where, field_name, shown
from hypar.files.json_file import format_json, read_json
from hypar.files.record import Record
from hypar.files.text import write_text
from hypar.files.validation import validated
from hypar.network.dims import CUTTABLE
from hypar.plan.chunks import ChunksRecord
from hypar.plan.conventions import Recorded
from hypar.plan.score import Amount, Score
from hypar.plan.splits import WHOLE_ARRAY, Group, Split, StagesRecord, groups_of, stage_name
from hypar.registry import load_plugin
from hypar.results import Origin, Result, remember, view_of
from hypar.sharding.space import parse_space

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from pydantic_core import InitErrorDetails

    from hypar.sharding.placement import Choice

MOST_DEVICES = 2**20
"""Devices of an array at most: 20 two-way levels."""

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
    """The files that were planned with, relative to the plan's folder.

    Attributes:
        model: the model file.
        hardware: the hardware file.
        profile: the table of measured times.
    """

    model: str | None = None
    hardware: str | None = None
    profile: str | None = None


class CostRecord(Record):
    """The cost that was minimised, and its value."""

    name: str
    value: Amount
    unit: str
    parameters: dict[str, int | float | str] = Field(default={})


class LimitsRecord(Record):
    """The limits that kept a joint search from a proof.

    Attributes:
        seconds: the time that it was allowed, counted as work.
        bytes: the memory that it was allowed.
        cut: ``time`` if the clock came before the work was done, ``interrupt`` if the user did; None if neither did.
        answers: how many answers the search had given by then.
    """

    seconds: Annotated[Amount, Field(gt=0)]
    bytes: Annotated[Amount, Field(gt=0)]
    cut: Literal["time", "interrupt"] | None = None
    answers: Annotated[int, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _both(self) -> Self:
        """Check that a search that was cut short says where."""
        if (self.cut is None) != (self.answers is None):
            raise ValueError("limits: found one of cut and answers; allowed: both or none")
        return self


class RefinementRecord(Record):
    """The effect of refinement against the engine.

    Attributes:
        before_s: the engine's time of the plan that was searched.
        after_s: the engine's time of the refined plan.
        changed: number of choices that differ.
    """

    before_s: Amount
    after_s: Amount
    changed: Annotated[int, Field(ge=0)]


SEARCHED = "search"
"""The name of the search's own plan beside baselines."""


class BaselinesRecord(Record):
    """The strategies that the engine timed beside the search's plan.

    Attributes:
        taken: name of the strategy whose plan this is, or ``search``.
        step_s: the engine's time of the search's plan and of each baseline, before any refinement.
    """

    taken: str
    step_s: Annotated[dict[str, Amount], Field(min_length=2)]

    @model_validator(mode="after")
    def _timed(self) -> Self:
        """Check that the search's plan and the plan that was taken are timed."""
        if SEARCHED not in self.step_s:
            raise ValueError(f"baselines.step_s: found no {SEARCHED!r}; allowed: it and strategies")
        if self.taken not in self.step_s:
            allowed = ", ".join(self.step_s)
            raise ValueError(f"baselines.taken: found {shown(self.taken)}; allowed: {allowed}")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """Return the strategies that were timed."""
        return tuple(name for name in self.step_s if name != SEARCHED)


Ways = list[Annotated[int, Field(ge=2)]]


class Plan(Result, Record):
    """A choice for every layer at every level.

    Attributes:
        schema_: version of the format.
        model: the network.
        graph: ``operators`` if pools are planned too; None for weighted layers and joins alone.
        strategy: the name under which it was planned.
        space: the choices that were allowed.
        search: the search over the levels.
        solver: the solver of the cost graphs.
        array: ways of each level, outermost first; empty for a heterogeneous machine.
        arrays: for a heterogeneous machine, the ways of each level inside each group of identical devices, or inside each
            of its stages.
        shares: for a heterogeneous machine, the rule that found the shares of its uneven splits.
        integral: for a heterogeneous machine, whether shares are of whole elements; None if they need not be.
        path: for a heterogeneous machine, the slowest groups, whose splits the cost sums; None if it sums all.
        pins: choices that were held, as ``layer@level=dim``.
        profile: the measured times that the cost counted; None if it counted none.
        files: the files that it was planned with, where they are not found by name beside the plan.
        bounds: lower bounds of the cost, over all levels or level by level; None if the solver is exact or states none.
        limits: the limits that kept the search from a proof; None if none did.
        convention: the convention by which the cost counts bytes; None for ``paper``, and for a cost with a count of
            its own.
        cost: the cost that was minimised.
        claim: the set of plans over which this one is optimal.
        stages: the stages of a pipeline, each cut over devices of its own; None without a pipeline.
        splits: one for each level, outermost first; on a heterogeneous machine a group's before its subgroups', and with
            stages on its groups one for each level of a group, with the layers of its stages.
        baselines: the strategies that the engine timed beside the search's plan; this plan is the fastest. None if
            none were timed.
        refined: the effect of refinement against the engine; None if it was not requested.
        chunks: the layers that exchange their gradients together; None if chunks were not requested.
        score: the score on a machine; None if no machine was named.
    """

    model_config = ConfigDict(populate_by_name=True)
    _view: ClassVar[str] = "plan"

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
    pins: list[str] = Field(default=[])
    profile: ProfileRecord | None = None
    files: FilesRecord | None = None
    bounds: list[Amount] | None = None
    limits: LimitsRecord | None = None
    convention: Recorded = None
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
        """Check that levels, layers, choices and shares agree."""
        self.require_whole()
        return self

    def require_whole(self) -> None:
        """Check that levels, layers, choices and shares agree.

        Raises:
            ValueError: they do not.
            ValidationError: a dim is unknown.
            InputError: the space is none.
        """
        self._require_dims()
        if not self.splits and self.stages is None:
            raise ValueError("splits: found []; allowed: at least 1 where there are no stages")
        if math.prod(self.array) > MOST_DEVICES:
            ways = "x".join(str(ways) for ways in self.array)
            raise ValueError(f"array: found {ways:.60}; allowed: at most {MOST_DEVICES:,} devices")
        if not self.heterogeneous and [(split.level, split.ways) for split in self.splits] != [
            *enumerate(self.array)
        ]:
            raise ValueError(
                f"splits do not match the array {self.array}; allowed: one a level, outermost first"
            )
        if self.stages is not None:
            self._require_stages(self.stages)
        for split in self.splits:
            split.require_whole(self._layers_at(split))
        if self.heterogeneous:
            self._require_groups()
        elif (
            self.arrays is not None
            or self.path is not None
            or {split.group for split in self.splits} - {"all"}
        ):
            raise ValueError(
                "splits: found groups without an uneven split; allowed: group 'all', no arrays and no path"
            )
        self._require_bounds()
        self._require_timed()
        parse_space(self.space, self.model.dims or ())

    def _require_dims(self) -> None:
        """Check that every dim that is divided is one of all networks, or one that this network names.

        Raises:
            ValidationError: one is not.
        """
        known = (*CUTTABLE, *(self.model.dims or ()))
        expected = {"expected": ", ".join(map(repr, known))}
        lines: list[InitErrorDetails] = [
            {
                "type": "literal_error",
                "loc": ("splits", number, "choices", layer, dim),
                "input": dim,
                "ctx": expected,
            }
            for number, split in enumerate(self.splits)
            for layer, degrees in split.choices.items()
            for dim in degrees
            if dim not in known
        ]
        if lines:
            raise ValidationError.from_exception_data("plan", lines)

    def _require_timed(self) -> None:
        """Check that a plan with chunks or baselines can have them.

        Raises:
            ValueError: it cannot.
        """
        if self.baselines is not None and (self.staged or self.score is None):
            place = "in stages" if self.score else "without a score"
            raise ValueError(f"baselines: found {place}; allowed: none")
        if self.chunks is not None:
            self.chunks.require_of(self.layers, scored=self.score is not None)

    def _require_stages(self, stages: StagesRecord) -> None:
        """Check that the stages have every layer once, in order.

        Raises:
            ValueError: they do not.
        """
        stages.require_as_asked()
        count = len(stages.stages)
        if not stages.groups and self.splits and stages.layers != tuple(self.splits[0].choices):
            raise ValueError("stages: found other layers than those of level 0; allowed: each once, in order")
        if self.model.batch % stages.microbatches:
            found, allowed = f"{stages.microbatches:,}", f"a divisor of the batch {self.model.batch:,}"
            raise ValueError(f"stages.microbatches: found {found}; allowed: {allowed}")
        devices = max(count * math.prod(self.array), math.prod(stages.array or ()))
        if not self.heterogeneous and (stages.outside or 0) > len(self.array):
            allowed = f"at most {len(self.array)}, as there are levels"
            raise ValueError(f"stages.outside: found {stages.outside}; allowed: {allowed}")
        if devices > MOST_DEVICES or self.score is None:
            kind = "" if self.heterogeneous else "identical "
            allowed = f"at most {MOST_DEVICES:,} {kind}devices, and a score"
            raise ValueError(f"stages: found {count}; allowed: {allowed}")
        if self.staged and [group.group for group in self.score.groups or ()] != [*self._lanes_of(stages)]:
            raise ValueError(
                f"score.groups: found others than the stages; allowed: {count}, one a stage, in order"
            )
        alike = not self.staged and stages.arrays is None
        if alike and (self.array != stages.array or self.score.groups is not None):
            raise ValueError(f"stages: found 1 over {self.array}; allowed: {stages.array}, and no groups")

    def _lanes_of(self, stages: StagesRecord) -> Iterator[str]:
        """Yield the names of the groups of identical devices of each stage, in order."""
        for number, stage in enumerate(stages.stages):
            name = stage_name(number)
            own = [group for group in self.groups if stage.group is None or group.root == stage.group]
            yield from (f"{name} {group.name}" if group.above else name for group in own)

    def _layers_at(self, split: Split) -> Collection[str]:
        """Return the layers that a split has: those of all stages, or of the stages on its group."""
        stages = self.stages
        if stages is None or not stages.groups:
            return self.layers
        root = next((group.root for group in self.groups if self._inside(group, split)), "")
        return stages.layers_of(root)

    @staticmethod
    def _inside(group: Group, split: Split) -> bool:
        """Return whether a group of identical devices is below a split."""
        return split.group == group.name or any(own is split for own, _ in group.above)

    def _require_no_path(self, stages: StagesRecord) -> None:
        """Check that a plan in stages has no slowest groups, and shares only where a layer is on several groups.

        Raises:
            ValueError: it has.
        """
        shared = self.shares is not None or self.integral is not None
        if self.path is not None or (shared and not self.uneven and stages.arrays is None):
            raise ValueError("stages: found a path or shares; allowed: none, as no group shares a layer")
        if any(group.idle for group in self.groups):
            raise ValueError("stages: found a group without a share; allowed: a share for each group")
        if any(len(group.above) + len(group.splits) < (stages.outside or 0) for group in self.groups):
            raise ValueError(f"stages.outside: found {stages.outside}; allowed: fewer nodes than a group has")

    def _require_groups(self) -> None:
        """Check that arrays, path and splits name the same tree of groups.

        Raises:
            ValueError: they do not.
        """
        if self.array or self.score is None:
            what = f"array: found {self.array}" if self.array else "score: found none"
            raise ValueError(f"{what}; allowed: no array and a score on a heterogeneous machine")
        arrays, groups = self.arrays or {}, self.groups
        if self.stages is not None and self.staged:
            self._require_no_path(self.stages)
        for group in groups:
            planned = [split.ways for split in group.splits]
            if group.idle and planned:
                found = f"found {len(planned)} of a group without a share"
                raise ValueError(f"splits of {shown(group.name)}: {found}; allowed: none")
            if not group.idle and arrays.get(group.name) != planned:
                found = shown(arrays.get(group.name))
                raise ValueError(f"arrays.{group.name}: found {found}; allowed: {planned}, as its splits")
        # Groups below an idle uneven split have no splits that would name them.
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
        """Check that no bound is above its cost, apart from rounding.

        Raises:
            ValueError: one is above, or their number is neither 1 nor that of the levels.
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
    def groups(self) -> tuple[Group, ...]:
        """Return the groups of identical devices; the one group ``all`` if all devices are identical."""
        roots = () if self.stages is None else self.stages.groups
        return groups_of(self.splits, roots or (WHOLE_ARRAY,))

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

    def to_data(self) -> dict[str, Any]:
        """Return the plan as plain data, without keys of absent entries."""
        data = self.model_dump(mode="json", by_alias=True)
        data["model"] = _given(data["model"])
        data["splits"] = [_given(split) for split in data["splits"]]
        if self.files is not None:
            data["files"] = _given(data["files"])
        if self.limits is not None:
            data["limits"] = _given(data["limits"])
        if self.stages is not None:
            data["stages"] = _given(data["stages"])
            data["stages"]["stages"] = [*map(_given, data["stages"]["stages"])]
        if self.score is not None:
            data["score"] = self.score.to_data()
        return _given(data)

    def to_json(self) -> str:
        """Return the plan file's text; equal plans give equal bytes."""
        return format_json(self.to_data()) + "\n"

    def write(self, file: str | Path) -> None:
        """Write the plan whole or not at all.

        Raises:
            DocumentError: the folder is missing or cannot be written to.
        """
        write_text(Path(file), self.to_json())

    def render(self, report: str = "table") -> str:
        """Render the plan as a report: ``table``, ``markdown`` or ``html``.

        Raises:
            UnknownNameError: there is no such report.
        """
        text: str = load_plugin("reports", report).render(self)
        return text

    def explain(self, layer: str = "", *, model: Any = None) -> Any:
        """Explain the plan as ``hypar.explain_plan`` does, with the network and the machine that it was made from.

        Args:
            layer: a layer's name or a pattern whose choices are all costed.
            model: the network or its file, if the plan was read and its model's name does not find it.

        Raises:
            OptionError: there is no such layer, or no layer is cut.
            InputError: the network is not found or is another.
        """
        return view_of(self).explain(self, layer, model)

    def __repr__(self) -> str:
        """Return a readable table for a terminal."""
        return self.render()

    __str__ = __repr__


def _given(data: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if value is not None}


SCHEMA: str = Plan.model_fields["schema_"].default
"""The only format that is written and read."""


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
        plan = validated(Plan, data, place=place, error=PlanError)
    except OptionError as error:
        raise PlanError(f"{path}: space", error.found, error.allowed) from None
    remember(plan, Origin(file=path))
    if plan.score is not None:
        remember(plan.score, Origin(plan=plan, file=path))
    return plan


def _is_newer(schema: object) -> bool:
    """Return whether a schema is a later version of this one."""
    family, _, version = SCHEMA.partition("/")
    found, _, number = str(schema).partition("/")
    return (
        found == family
        and number.isascii()
        and number.isdigit()
        and (len(number), number) > (len(version), version)
    )
