"""Run stages as a pipeline in the engine: one step, in which every stage has its full work.

Stages that use one weight each have a copy, and add up its gradient once a mini-batch.
Source: Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM (SC21), whose code
adds up the gradients of the embedding in the first stage and of the head in the last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import accumulate, chain
from typing import Self

from hypar.machine.machine import DeviceGroup
from hypar.network.nodes import Tensor
from hypar.plan.records import stage_name
from hypar.planning.chunks import run_chunked
from hypar.planning.records import Node
from hypar.planning.resolved import Resolved
from hypar.planning.stages.arriving import Outer, places_for
from hypar.planning.stages.spans import CutSpan
from hypar.planning.uneven.tree import Branch
from hypar.schedule.lanes import Pieces, StagePlace, priced
from hypar.schedule.pipeline_orders import Schedule, Work, in_flight, moments
from hypar.schedule.stages import StageWork, StepWork
from hypar.schedule.tasks import Arrival, Entering, Tied
from hypar.sharding.amounts.counted import SEAM, Received, received_between
from hypar.sharding.amounts.transfers import between_of, parts_of_weight
from hypar.sharding.placement import Options


@dataclass(frozen=True, eq=False, kw_only=True)
class Staging(Node):
    """A network divided into stages, each cut over its own devices, by a request with the number of microbatches.

    ``stages`` are their parts in the network's order, in turn of the first stage to the last.
    """

    request: Resolved
    stages: tuple[CutSpan, ...]

    @classmethod
    def of(cls, request: Resolved, stages: Sequence[CutSpan]) -> Self:
        """Return stages, with the transfers between them as the choices of all of them say.

        Outside the stages a layer of another one has choices of its own; a tensor between two parts of one stage, as along a
        residual branch that skips the others, is handed on by the devices that have it.
        """
        request = replace(request, microbatches=stages[0].spans.microbatches)
        count = len(stages) // (request.parts or 1)
        places = [(number, layer) for number, own in enumerate(stages) for layer in range(own.work.layers)]

        def outer(reader: int, layer: int) -> Outer:
            number, own = places[layer]
            return Outer((number - reader) % count == 0, stages[number].node, own)

        if request.outside or request.parts is not None:
            each = enumerate(stages)
            stages = [own.spans.between(own, partial(outer, number)) for number, own in each]
        return cls(request=request, stages=tuple(stages))

    @property
    def count(self) -> int:
        """The number of stages."""
        return len(self.stages) // (self.request.parts or 1)

    def having(self, nodes: Iterable[Branch]) -> Self:
        """Return the same stages with other cuts."""
        each = zip(self.stages, nodes, strict=True)
        return self.of(self.request, [own.spans.having(*own.ends, node) for own, node in each])

    def taking(self, chosen: Iterator[Options]) -> Self:
        """Return the stages with other choices, one for each layer at each node in turn."""
        return self.having(own.node.taking(chosen) for own in self.stages)

    @cached_property
    def seconds(self) -> float:
        """The engine's time for a step, with the chunks of the request."""
        return run_chunked(self.work, self.request.chunks).seconds

    @cached_property
    def work(self) -> StepWork:
        """The devices of each part, with their work for a microbatch."""
        request, count, first, works = self.request, self.count, 0, list[StageWork]()
        microbatches = request.microbatches or 1
        exchanges, sums = exchanges_of(self.stages, count)
        # The pieces of work of each stage, at the moments when most microbatches wait.
        fullest = [moments(own, request.parts or 1) for own in works_of(request, count)]
        groups = [*accumulate((len(span.lanes) for span in self.stages[:count]), initial=0)]
        for number, span in enumerate(self.stages):
            stage, lanes = number % count, []
            # The stage of a weight's own layer gets the terms of all others, these the sums.
            each = (
                (own, max(1, (not at) * len(tied) - 1)) for tied in exchanges for at, own in enumerate(tied)
            )
            tied = tuple((layer, others) for (part, layer, _), others in each if part == number)
            shared = tuple((layer, pieces) for (part, layer), pieces in sums.items() if part == number)
            for group, lane in enumerate(span.lanes, start=groups[stage]):
                places = places_for(lane.setting.machine, lane.setting.array, span.spans.stages)
                own = places, microbatches, fullest[stage], lane.place.outside, first
                name = f"{stage_name(stage)} {lane.name}".rstrip()
                lanes.append(lane.having(name=name, number=group, place=StagePlace(*own, (), tied, shared)))
            works.append(span.work._replace(lanes=tuple(lanes), name=stage_name(stage)))
            first += span.work.layers
        schedule = Schedule(request.schedule, request.parts or 1)
        return StepWork(
            stages=tuple(works), schedule=schedule, microbatches=microbatches, exchanges=exchanges
        )


User = tuple[int, int]
"""A layer that uses a weight, the first of its stage: the number of its part, and its index there."""

Sums = dict[User, "Pieces"]
"""What users of a weight receive at the levels outside the stages, in place of their own sums there."""


def exchanges_of(stages: Sequence[CutSpan], count: int) -> tuple[tuple[Tied, ...], Sums]:
    """Return the gradients that several stages add up, that of the weight's own layer first, and the sums of the others.

    None are added up below uneven splits, which keep a weight for each layer. The stage of the weight's own layer gets the sums
    of the others, and each of these the sum of all. Layers of one stage add up theirs inside it; of those of several of its parts
    the first counts. ``stages`` are the parts of ``count`` stages in turn.
    """
    ties: dict[int, list[Tensor]] = {}
    for tie in stages[0].spans.ties:
        ties.setdefault(tie.producer, []).append(tie)
    places = [(number, layer) for number, span in enumerate(stages) for layer in range(span.work.layers)]
    found, sums = [], Sums()
    for owner, own in ties.items():
        users: dict[int, User] = {}
        for layer in (owner, *(tie.consumer for tie in own)):
            users.setdefault(places[layer][0] % count, places[layer])
        if len(users) > 1:
            found.append(_exchange(stages, [*users.values()], own[0], sums))
    return tuple(found), sums


def _exchange(stages: Sequence[CutSpan], users: Sequence[User], tie: Tensor, sums: Sums) -> Tied:
    """Return the gradient of a weight that some stages add up, and add the sums outside them."""
    groups = {stages[number].spans.group for number, _ in users}
    arrivals: dict[User, list[Received]] = {user: [] for user in users}
    for user in users[1:]:
        own, received = stages[user[0]].spans, _shared(stages, users[0], user, tie)
        back, there = (one for one in received if one.level == SEAM)
        arrivals[users[0]].append(back)
        arrivals[user].append(there)
        sums[user] = priced(own.setting, [one for one in received if SEAM < one.level < own.request.outside])
    members = []
    for (number, layer), seams in arrivals.items():
        own = stages[number].spans
        alike = (one.spans for one in stages if one.spans.group == own.group)
        links = (link for each in alike for link in each.links)
        link = next((one for one in links if one and isinstance(one, DeviceGroup) == (len(groups) > 1)), None)
        size = own.setting.formats.gradient
        arrived = (Arrival(layer, size * one.elements, one.receivers) for one in seams)
        members.append((number, layer, Entering.over(link, arrived)))
    return tuple(members)


def _shared(stages: Sequence[CutSpan], owner: User, user: User, tie: Tensor) -> tuple[Received, ...]:
    """Return what the weight's own stage receives from another one, and what this one gets back, at the seam and outside it."""
    lanes = [(stages[number].lanes[0], layer) for number, layer in (owner, user)]
    outside = stages[0].spans.request.outside
    made, used = (lane.graph.layers[layer] for lane, layer in lanes)
    first, last = (lane.choices[layer] if outside else () for lane, layer in lanes)
    array = lanes[0][0].setting.array if outside else ()
    between, parts = between_of(made, used, tie), parts_of_weight(tie.elements)
    return received_between(between, parts, array, (first, last), outside=outside)


def works_of(request: Resolved, stages: int) -> list[list[Work]]:
    """Return the work of each stage in order, by the schedule and the microbatches of a request."""
    order = Schedule(request.schedule, request.parts or 1)
    each = (order.steps(stage, stages, request.microbatches or 1) for stage in range(stages))
    return [[*chain.from_iterable(steps)] for steps in each]


def kept_in_flight(request: Resolved, stages: int) -> tuple[int, ...]:
    """Return for each part of each stage, in the network's order, the largest number of microbatches that it keeps."""
    works, parts = works_of(request, stages), range(request.parts or 1)
    return tuple(in_flight(work for work in own if work.part == part) for part in parts for own in works)
