"""The plan: what was asked, the tree that was decided, its cost, and its score.

A plan is written as versioned JSON, described in ``docs/plans.md``. It knows nothing of networks: showing and
comparing plans needs no model file.
"""

# Annotations are not postponed here: pydantic would parse the text of each one at every start.

import importlib
import math
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, Self

from pydantic import Field, model_validator

from hypar.document import Result
from hypar.errors import OptionError, PlanError, UnknownNameError, field_name, shown, suggestion
from hypar.files.text import format_json, read_json, write
from hypar.files.validation import Record, validated
from hypar.ops.dims import CUTTABLE
from hypar.plan import records
from hypar.sharding import tree
from hypar.sharding.placement import Choice
from hypar.sharding.space import parse_space

SCHEMA: Final = "hypar.plan/3"
"""The only format that is written and read."""


class Plan(Result, Record):
    """A choice for every layer at every level. ``docs/plans.md`` says what each key of the file means; None is one that is left out.

    Attributes:
        array: ways of each level, outermost first; empty for a heterogeneous machine, which has ``arrays``.
        convention: the convention by which the cost counts bytes; ``paper`` also for a cost with a count of its own.
        splits: the splits of the tree ``root``, a group's before its subgroups', and with stages on its groups one for each level of
            a group, with the layers of its stages.
    """

    _document: ClassVar[str] = "plan"

    schema_: Literal["hypar.plan/3"] = Field(alias="schema")
    model: records.ModelRecord
    graph: records.Operators | None = None
    strategy: str
    space: str
    search: str
    solver: str
    array: records.Ways
    arrays: dict[str, records.Ways] | None = None
    shares: str | None = None
    path: list[str] | None = None
    pins: list[str]
    profile: records.ProfileRecord | None = None
    files: records.FilesRecord | None = None
    bounds: list[tree.Amount] | None = None
    limits: records.LimitsRecord | None = None
    convention: records.Counted = "paper"
    cost: records.CostRecord
    claim: str
    training: records.TrainingRecord = Field(default_factory=records.TrainingRecord.model_construct)
    stages: records.StagesRecord | None = None
    splits: list[tree.Split]
    baselines: records.BaselinesRecord | None = None
    refined: records.RefinementRecord | None = None
    chunks: records.ChunksRecord | None = None
    score: records.Score | None = None

    def require_whole(self) -> Self:
        """Check that levels, layers, choices, shares, stages, bounds and score agree; raises ``ValueError``."""
        for found in self._faults():
            raise ValueError(found)
        return self

    _whole = model_validator(mode="after")(require_whole)

    def to_json(self) -> str:
        """Return the plan file's text; equal plans give equal bytes."""
        return format_json(self.to_data()) + "\n"

    def write(self, file: str | Path) -> None:
        """Write the plan whole or not at all; raises ``DocumentError`` where the folder is missing or cannot be written to."""
        write(Path(file), self.to_json())

    def render(self, form: str = "table") -> str:
        """Render the plan as ``table``, ``markdown``, ``html`` or ``csv``; raises ``UnknownNameError`` for another form."""
        text: str = importlib.import_module("hypar.reports.renderers").rendered(self.document(), form)
        return text

    def explain(self, layer: str = "*", *, model: Any = None) -> Any:
        """Explain the plan as ``hypar.explain_plan`` does, with the network and the machine that it was made from.

        The network or its file may be given, if the model's name does not find it. Raises ``InputError`` for no such layer.
        """
        sources = importlib.import_module("hypar.planning.sources")
        found = sources.network_of(self, model), sources.machine_of(self), sources.times_of(self)
        explain = importlib.import_module("hypar.studies.alternatives").explain_plan
        return explain(self, found[0], layer=layer, machine=found[1], profile=found[2])

    def __repr__(self) -> str:
        """Return a readable table for a terminal."""
        return self.render()

    __str__ = __repr__

    @property
    def staged(self) -> bool:
        """Return whether it has stages that form a pipeline."""
        return self.stages is not None and self.stages.pipelined

    @property
    def microbatches(self) -> int:
        """Return into how many microbatches it divides a mini-batch."""
        staged = self.stages if self.staged else None
        return (staged or self.training).microbatches

    @property
    def zero(self) -> int:
        """Return the stage of ZeRO by which its weights rest."""
        return self.training.zero

    @property
    def uneven(self) -> bool:
        """Return whether it has uneven splits."""
        return any(split.sides is not None for split in self.splits)

    @property
    def heterogeneous(self) -> bool:
        """Return whether it is for a heterogeneous machine: with uneven splits, or with stages on its groups."""
        return self.uneven or bool(self.stages is not None and self.stages.groups)

    @cached_property
    def root(self) -> tree.Node:
        """Return the tree of levels, uneven splits and stages; raises ``ValueError`` where these form none."""
        stages = self.stages
        for found in () if stages is None else stages.faults():
            raise ValueError(found)
        if stages is None or not (stages.pipelined or stages.groups):
            return tree.tree_of(self.splits)
        each = [(stage.group, stage.layers) for stage in stages.stages]
        return tree.tree_of(self.splits, each, stages.outside or 0)

    @cached_property
    def groups(self) -> tuple[tree.Group, ...]:
        """Return the groups of identical devices; the one group ``all`` if all devices are identical."""
        return tuple(tree.groups_of(self.root))

    @property
    def summed(self) -> tuple[tree.Split, ...]:
        """Return the splits whose costs sum to the plan's."""
        return tuple(split for split in self.splits if self.path is None or split.group in self.path)

    @cached_property
    def layers(self) -> tuple[str, ...]:
        """Names of the layers that are cut, in topological order."""
        staged = self.stages is not None and (self.stages.groups or not self.splits)
        return self.stages.layers if self.stages is not None and staged else (*self.splits[0].choices,)

    @property
    def num_devices(self) -> int:
        """Return the number of devices in all stages; on a heterogeneous machine without the idle ones."""
        stages = 1 if self.stages is None else self.stages.of_each_group
        return stages * sum(math.prod(group.array) for group in self.groups if not group.idle)

    def dims(self, layer: str, group: str | None = None) -> tuple[str | None, ...]:
        """Return the dim in which a layer is cut at each level, several joined by ``*``; None if it is not cut.

        ``group`` is that of identical devices whose levels are meant; raises ``UnknownNameError`` for no such layer or group.
        """
        return tuple("*".join(choice.divided) or None for choice in self.choices(layer, group))

    def choices(self, layer: str, group: str | None = None) -> tuple[Choice, ...]:
        """Return the choice of a layer at each level; ``dims`` describes the arguments and the errors."""
        groups = {found.name: found for found in self.groups}
        name = group or self._group_of(layer) or ("" if len(groups) > 1 else next(iter(groups)))
        if name not in groups:
            raise UnknownNameError("group", name, groups)
        return tuple(split.choice(layer) for split in groups[name].levels)

    def devices(self, layer: str) -> int:
        """Count the devices that work for a layer; raises ``UnknownNameError`` if no layer of that name is cut."""
        root = self._group_of(layer)
        own = (group for group in self.groups if root in {None, group.root})
        working = (group for group in own if all(split.shares_of(layer)[at] for split, at in group.above))
        return sum(math.prod(one.choice(layer).devices(one.ways) for one in own.splits) for own in working)

    @cached_property
    def _roots(self) -> dict[str, str | None]:
        stages = () if self.stages is None else self.stages.stages
        return dict.fromkeys(self.layers) | {layer: stage.group for stage in stages for layer in stage.layers}

    def _group_of(self, layer: str) -> str | None:
        """Return the device group that a layer's stage is on; None if it is on all devices."""
        if layer not in self._roots:
            raise UnknownNameError("layer", layer, self.layers)
        return self._roots[layer]

    def _faults(self) -> Iterator[str]:
        groups, scored = self.groups, self.score is not None
        yield from self._dim_faults()
        levels = [(split.level, split.ways) for split in self.splits]
        if not levels and self.stages is None:
            yield "splits: found []; allowed: at least 1 where there are no stages"
        if not self.heterogeneous and levels != [*enumerate(self.array)]:
            yield f"splits do not match the array {self.array}; allowed: one a level, outermost first"
        yield from () if self.stages is None else self._stage_faults(self.stages)
        for group in groups:
            own = {layer for layer, root in self._roots.items() if root in {None, group.root}}
            strange = (one for one in group.levels if not one.choices.keys() == one.costs.keys() == own)
            for split in strange:
                yield f"splits[{split.level}]: its choices, its costs and level 0 name different layers"
        if self.heterogeneous:
            yield from self._group_faults()
        elif self.arrays is not None or self.path is not None or groups[0].name != tree.WHOLE_ARRAY:
            yield "splits: found groups without an uneven split; allowed: group 'all', no arrays and no path"
        yield from self._bound_faults()
        yield from self.training.faults(self.model.batch, scored=scored, staged=self.stages is not None)
        if self.chunks is not None:
            yield from self.chunks.faults(self.layers, scored=scored)

    def _dim_faults(self) -> Iterator[str]:
        """Yield whether the space is none, and where a dim is divided that neither all networks nor this one names."""
        try:
            parse_space(self.space, self.model.dims or ())
        except OptionError as error:
            yield f"space: {error.found}; allowed: {error.allowed}"
        known = (*CUTTABLE, *(self.model.dims or ()))
        for number, split in enumerate(self.splits):
            places = ((layer, dim) for layer, own in split.choices.items() for dim in own if dim not in known)
            for layer, dim in places:
                hint = "; ".join(filter(None, [", ".join(map(repr, known)), suggestion(dim, known)]))
                yield tree.fault(field_name(("splits", number, "choices", layer, dim)), dim, hint)

    def _stage_faults(self, stages: records.StagesRecord) -> Iterator[str]:
        """Yield where stages have not every layer once, in order, or do not suit the array and the score."""
        count, batch = len(stages.stages), self.model.batch
        if not stages.groups and self.splits and stages.layers != tuple(self.splits[0].choices):
            yield "stages: found other layers than those of level 0; allowed: each once, in order"
        if batch % stages.microbatches:
            allowed = f"a divisor of the batch {batch:,}"
            yield f"stages.microbatches: found {stages.microbatches:,}; allowed: {allowed}"
        levels, outside = len(self.array), stages.outside or 0
        if not self.heterogeneous and outside > levels:
            yield tree.fault("stages.outside", outside, f"at most {levels}, as there are levels")
        if count * math.prod(self.array) > tree.MOST_DEVICES or self.score is None:
            kind = "" if self.heterogeneous else "identical "
            yield tree.fault("stages", count, f"at most {tree.MOST_DEVICES:,} {kind}devices, and a score")
        groups = [] if self.score is None else [group.group for group in self.score.groups or ()]
        lanes = [
            records.stage_name(number) + f" {each.name}" * bool(each.above)
            for number, stage in enumerate(stages.stages)
            for each in self.groups
            if stage.group in {None, each.root}
        ]
        if self.staged and groups != lanes:
            yield f"score.groups: found others than the stages; allowed: {count}, one a stage, in order"
        if not self.staged and stages.arrays is None and (self.array != stages.array or groups):
            yield f"stages: found 1 over {self.array}; allowed: {stages.array}, and no groups"

    def _group_faults(self) -> Iterator[str]:
        """Yield where arrays, path and stages name other groups than the tree."""
        arrays, groups = self.arrays or {}, self.groups
        if self.array or self.score is None:
            place = "array" if self.array else "score"
            yield tree.fault(place, self.array or None, "no array and a score on a heterogeneous machine")
        if self.stages is not None and self.staged:
            outside = self.stages.outside or 0
            if self.path is not None or (self.shares and not self.uneven and self.stages.arrays is None):
                yield "stages: found a path or shares; allowed: none, as no group shares a layer"
            if any(group.idle for group in groups):
                yield "stages: found a group without a share; allowed: a share for each group"
            if any(len(group.above) + len(group.splits) < outside for group in groups):
                yield tree.fault("stages.outside", outside, "fewer nodes than a group has")
        for group in groups:
            own, array = arrays.get(group.name), [*group.array]
            if not group.idle and own != array:
                yield tree.fault(f"arrays.{group.name}", own, f"{array}, as its splits")
        # Groups below an idle uneven split have no splits that would name them.
        names = [group.name for group in groups]
        others = [name for name in arrays if name not in names]
        if others and not any(group.idle and group.name not in arrays for group in groups):
            yield tree.fault("arrays", others[0], ", ".join(names))
        known = {split.group for split in self.splits} | {*arrays}
        strange = [name for name in self.path or () if name not in known]
        yield from (tree.fault("path", name, ", ".join(sorted(known))) for name in strange)

    def _bound_faults(self) -> Iterator[str]:
        """Yield where bounds and costs do not agree, or baselines are not timed."""
        if (own := self.baselines) is not None:
            if records.SEARCHED not in own.step_s:
                yield f"baselines.step_s: found no {records.SEARCHED!r}; allowed: it and strategies"
            if own.taken not in own.step_s:
                yield tree.fault("baselines.taken", own.taken, ", ".join(own.step_s))
            if self.staged or self.score is None:
                yield f"baselines: found {'in stages' if self.score else 'without a score'}; allowed: none"
        bounds = self.bounds or ()
        costs = [self.cost.value] if len(bounds) == 1 else [split.cost for split in self.splits]
        if self.bounds is not None and len(bounds) != len(costs):
            yield f"bounds: found {len(bounds)}; allowed: 1, or {len(costs)}, one a level"
        for number, (bound, cost) in enumerate(zip(bounds, costs, strict=False)):
            if bound > cost and not math.isclose(bound, cost, rel_tol=1e-9):
                yield f"bounds[{number}]: found {bound:,}; allowed: at most {cost:,}, the cost"


def read_plan(file: str | Path) -> Plan:
    """Read a plan file; raises ``InputError`` if it is missing, damaged, or of another schema."""
    path = Path(file)
    data = read_json(path)
    if not isinstance(data, dict):
        raise PlanError(str(path), f"found {shown(data)}", "an object")
    if data.get("schema") != SCHEMA:
        version = re.fullmatch(r"hypar\.plan/0*([1-9][0-9]*)", str(data.get("schema")))
        hint = "" if version is None else "it was written by a newer hypar"
        hint = "plan again, as it is of an older hypar" if version and version[1] in {"1", "2"} else hint
        raise PlanError(f"{path}: schema", f"found {shown(data.get('schema'))}", SCHEMA, hint)
    plan = validated(
        Plan, data, place=lambda where: f"{path}: {field_name(where)}".removesuffix(": "), error=PlanError
    )
    records.remember(plan, records.Origin(file=path))
    if plan.score is not None:
        records.remember(plan.score, records.Origin(plan=plan, file=path))
    return plan
