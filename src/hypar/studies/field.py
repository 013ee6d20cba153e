"""The plans around a plan: the same but for the choices at some places, and the score of each."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from hypar.costs.base import load_cost
from hypar.errors import OptionError, suggestion
from hypar.plan.content import rooted
from hypar.plan.score import totals_of
from hypar.planning.chunks.search import run_chunked
from hypar.planning.question import question_of, setting_for
from hypar.planning.resolved import Resolved
from hypar.planning.sources import times_of
from hypar.planning.stages.replay import stored_stages
from hypar.planning.uneven.planner import split_options
from hypar.planning.uneven.replay import branch_of
from hypar.schedule.scoring import summarise, totals
from hypar.schedule.stages import StepWork
from hypar.sharding.conventions import DIRECT, PAPER
from hypar.sharding.pins import level_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hypar.machine.heterogeneous import HeterogeneousMachine
    from hypar.machine.machine import Machine
    from hypar.machine.setting import Setting
    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan
    from hypar.plan.score import Score, Totals
    from hypar.planning.uneven.tree import Branch
    from hypar.sharding.placement import Choice, Options
    from hypar.sharding.tree import Split

Choices = tuple["Choice", ...]
"""The choice of a layer at each split of one level: several if device groups have that level."""


class Place(NamedTuple):
    """A layer at a level.

    Attributes:
        layer: its name.
        level: the number of the level.
        ways: the ways of the level, in the first group that has it.
        options: the choices that all splits of the level allow.
        own: the plan's choices.
    """

    layer: str
    level: int
    ways: int
    options: tuple[Choices, ...]
    own: Choices


class Field:
    """The plans that differ from a plan in choices alone.

    Attributes:
        plan: the plan.
        graph: the network, with the plan's batch.
        machine: the machine of its score.
        request: the plan's request.
    """

    def __init__(self, plan: Plan, graph: LayerGraph, machine: Machine | HeterogeneousMachine) -> None:
        if plan.staged and plan.heterogeneous:
            found = "the plan's stages are on device groups"
            raise OptionError("vary", found, "stages on identical devices, or none")
        self.plan, self.graph, self.machine = plan, graph, machine
        request = Resolved.of(plan, machine, times_of(plan)).as_planned(plan)
        self.request = replace(request, pins=(), refine=False)
        self.nodes = graph.nodes(plan.graph)

    def places(self, text: str) -> Iterator[Place]:
        """Yield the places that a text names, level by level.

        Raises:
            OptionError: it names no layer or level, or the device groups have no choice in common.
        """
        pattern, at, level_text = text.partition("@")
        if not any(fnmatchcase(name, pattern) for name in self.plan.layers):
            found = f"no layer that is cut is named {pattern!r}"
            raise OptionError(f"vary {text!r}", found, hint=suggestion(pattern, self.plan.layers))
        count = max((split.level + 1 for split in self.plan.splits), default=0)
        for level in [level_of(level_text, count, f"vary {text!r}")] if at and count else range(count):
            splits = [split for split in self.plan.splits if split.level == level]
            for number, name in enumerate(self.plan.layers):
                if fnmatchcase(name, pattern):
                    place = self._place(number, name, splits)
                    if not place.options:
                        groups = ", ".join(split.group for split in splits)
                        found = f"{name!r} has no choice at H{level + 1} that {groups} have in common"
                        raise OptionError(f"vary {text!r}", found)
                    yield place

    def _place(self, number: int, name: str, splits: list[Split]) -> Place:
        """Return a layer at a level; choices of several groups correspond by their dims and degrees."""
        first, *others = splits
        listed = [
            {choice.text(split.ways): choice for choice in self._options[split.level, split.group][number]}
            for split in others
        ]
        found = []
        for choice in self._options[first.level, first.group][number]:
            same = [each.get(choice.text(first.ways)) for each in listed]
            if None not in same:
                found.append((choice, *filter(None, same)))
        return Place(
            layer=name,
            level=first.level,
            ways=first.ways,
            options=tuple(found),
            own=tuple(split.choice(name) for split in splits),
        )

    @cached_property
    def _options(self) -> dict[tuple[int, str], tuple[Options, ...]]:
        """The options of each layer at each split, by its level and group."""
        found = {
            (split.level, split.group): split_options(self.request, self.nodes, split.ways)
            for split in self.plan.splits
            if split.sides is not None
        }
        for leaf in self._node(self.plan).leaves():
            setting = leaf.lane.setting
            own = replace(self.request, machine=setting.machine).over(setting.array)
            options = (
                question_of(own, leaf.graph, (), self.graph.element_bytes).options if setting.array else ()
            )
            for level in range(len(setting.array)):
                place = (leaf.lane.depth + level, leaf.name)
                found[place] = tuple(each[level] for each in options)
        return found

    def scored(self, chosen: Mapping[Place, Choices]) -> tuple[Totals, bool]:
        """Return the totals of the plan with other choices, and whether they fit the memory."""
        if self._setting is not None and self.request.chunks is None:
            held = [list(choices) for choices in self._held]
            index = self._index
            for place, (choice, *_) in chosen.items():
                held[index[place.layer]][place.level] = choice
            found = totals(self.nodes, [tuple(row) for row in held], self._setting)
            return found, self._setting.machine.fits(found.memory_bytes)
        score = self._score(self._with(chosen))
        return totals_of(score), score.fits

    @cached_property
    def _index(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.plan.layers)}

    @cached_property
    def _held(self) -> list[Choices]:
        return [self.plan.choices(layer) for layer in self.plan.layers]

    @cached_property
    def _setting(self) -> Setting | None:
        """The setting of a step of the whole array; None for device groups and for stages."""
        if self.request.identical is None or self.plan.staged:
            return None
        return setting_for(self.request, self.graph.element_bytes, direct=self._direct)

    @cached_property
    def _direct(self) -> bool:
        return load_cost(self.request.cost, self.request.parameters).direct

    def _with(self, chosen: Mapping[Place, Choices]) -> Plan:
        """Return the plan with other choices; its costs, chunks and score are those of the plan."""
        given: dict[tuple[int, int], dict[str, dict[str, int]]] = {}
        for place, choices in chosen.items():
            for number, choice in enumerate(choices):
                given.setdefault((place.level, number), {})[place.layer] = choice.as_degrees()
        splits, seen = [], dict[int, int]()
        for split in self.plan.splits:
            number = seen.get(split.level, 0)
            seen[split.level] = number + 1
            others = given.get((split.level, number), {})
            splits.append(split.model_copy(update={"choices": {**split.choices, **others}}))
        return self.plan.model_copy(update={"root": rooted(splits, self.plan.stages), "chunks": None})

    def _score(self, plan: Plan) -> Score:
        """Return the score of a plan with chunks as the request asks for them."""
        if plan.stages is not None and plan.staged:
            choices = [plan.choices(layer) for layer in plan.layers]
            return stored_stages(plan, plan.stages, self.graph, choices, self.request).score
        counted = DIRECT if self._direct and self.request.counted == PAPER else self.request.counted
        work = StepWork.of(*self._node(plan, counted).lanes())
        ran = run_chunked(work, self.request.chunks)
        return summarise(work.lanes, ran.step, ran.timeline, self.machine)

    def _node(self, plan: Plan, counted: str = PAPER) -> Branch:
        """Return the node of the whole machine of a plan without stages."""
        size, optimizer = self.graph.element_bytes, self.request.optimizer
        return branch_of(plan, self.machine, self.nodes, size, optimizer, counted)
