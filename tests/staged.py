"""Stages by brute force: every span planned as a network by itself, every partition tried."""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from itertools import combinations, pairwise
from typing import Any, NamedTuple

from hypar import LayerGraph, Machine, Plan, plan_model
from hypar.machine.setting import Setting
from hypar.ops.families.layout import Input
from hypar.planning.resolved import Resolved
from hypar.planning.stages.planner import stored_stages
from hypar.planning.stages.running import Staging
from hypar.schedule.lanes import Lane
from hypar.schedule.stages import StepWork
from hypar.sharding.conventions import PAPER
from hypar.sharding.placement import Options


def pipeline(model: LayerGraph | str, **asked: Any) -> Plan:
    """A plan in stages of one device each, four unless said, by the schedule of layer-block pipelines unless said."""
    stages = {} if asked.get("stages") or asked.get("starts") else {"stages": 4}
    return plan_model(model, **{"levels": 0, "schedule": "layer-block", **asked, **stages})


COPIES = {
    "input": {"batch": 1, "in_channels": 1, "out_channels": 2},
    "output": {"batch": 1, "in_channels": 2, "out_channels": 1},
}
"""How many of two devices need each element that a layer reads, and of each error of what it gives: DESIGN's table."""


class Alone(NamedTuple):
    """A span alone: choices, seconds that a mini-batch keeps it busy, bytes of F and of E of other stages."""

    choices: tuple[Options, ...]
    seconds: float
    received: tuple[float, float]


class BruteForce:
    def __init__(
        self, graph: LayerGraph, machine: Machine, counts: tuple[int, int, int], **asked: Any
    ) -> None:
        self.graph, self.machine, self.asked = graph, machine, asked
        self.stages, self.microbatches, self.levels = counts
        self.known: dict[tuple[int, int], Alone] = {}

    @cached_property
    def names(self) -> list[str]:
        return [layer.name for layer in self.graph.contracted.layers]

    def network(self, start: int, end: int, batch: int) -> LayerGraph:
        layers = self.graph.layers
        places = {layer.name: place for place, layer in enumerate(layers)}
        first = places[self.names[start]] if start else 1
        last = places[self.names[end]] if end < len(self.names) else len(layers)
        (shape,) = layers[first].input_shapes
        head = replace(layers[first], inputs=(layers[0].name,))
        return replace(
            self.graph,
            layers=(
                replace(layers[0], op=Input.model_validate({**shape}), shape=shape),
                head,
                *layers[first + 1 : last],
            ),
            batch=batch,
        )

    def alone(self, start: int, end: int) -> Alone:
        if (start, end) not in self.known:
            self.known[start, end] = self.planned(start, end)
        return self.known[start, end]

    def planned(self, start: int, end: int) -> Alone:
        whole = self.network(start, end, self.graph.batch)
        choices: tuple[Options, ...] = ((),) * (end - start)
        if self.levels:
            plan = plan_model(
                whole, levels=self.levels, hardware=self.machine, convention="paper", **self.asked
            )
            choices = tuple(plan.choices(layer) for layer in plan.layers)
        array = (2,) * self.levels
        setting = Setting(machine=self.machine, array=array, element_bytes=self.graph.element_bytes)
        part = whole.with_batch(self.graph.batch // self.microbatches).contracted
        step = StepWork.of([Lane(part, choices, setting)]).run()
        seconds = math.fsum(
            piece.seconds
            if piece.kind == "update" or (piece.collective and piece.phase == "gradient")
            else self.microbatches * piece.seconds
            for piece in step.pieces
        )
        received = (
            self.crossing(start) * copies(choices[0], "input"),
            self.crossing(end) * copies(choices[-1], "output"),
        )
        for num_bytes in filter(None, received):
            seconds += self.microbatches * self.sending_s(num_bytes)
        return Alone(choices, seconds, received)

    def sending_s(self, num_bytes: int) -> float:
        link = self.machine.links((self.stages, *(2,) * self.levels))[0]
        return float(link.seconds("neighbours", num_bytes))

    def crossing(self, place: int) -> int:
        if place in {0, len(self.names)}:
            return 0
        shape = self.network(place, len(self.names), 1).layers[0].shape
        return self.graph.element_bytes * self.graph.batch // self.microbatches * math.prod(shape.values())

    def partitions(self) -> Iterator[tuple[int, ...]]:
        for inner in combinations(range(1, len(self.names)), self.stages - 1):
            yield (0, *inner, len(self.names))

    def bottleneck(self, bounds: tuple[int, ...]) -> float:
        return max(self.alone(*ends).seconds for ends in pairwise(bounds))

    @property
    def best(self) -> float:
        return min(map(self.bottleneck, self.partitions()))


def copies(chosen: Options, tensor: str) -> int:
    """How many devices need each element that a layer reads, or gives."""
    return math.prod(COPIES[tensor][dim] for choice in chosen for dim in choice.divided)


def staging_of(plan: Plan, graph: LayerGraph, machine: Machine) -> Staging:
    """The stages of a plan of single devices, as they run on its machine."""
    assert plan.stages is not None
    assert plan.score is not None
    request = replace(
        Resolved.of(plan, machine), optimizer=plan.score.optimizer, counted=plan.score.convention or PAPER
    )
    return stored_stages(plan, request, graph.with_batch(plan.model.batch))
