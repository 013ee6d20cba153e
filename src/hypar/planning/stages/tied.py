"""Tied weights of several stages: each of these has a copy, and they add up its gradient once a mini-batch.

Source: Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM (SC21), whose code
adds up the gradients of the embedding in the first stage and of the head in the last one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hypar.machine.machine import DeviceGroup
from hypar.planning.uneven.tree import Branching
from hypar.schedule.costed import Arrival, Entering
from hypar.schedule.pieces import priced
from hypar.sharding.amounts.counted import SEAM, received_between
from hypar.sharding.amounts.transfers import between_of, parts_of_weight

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.machine.setting import Setting
    from hypar.network.nodes import PlanNode, Tensor
    from hypar.planning.stages.span import CutSpan
    from hypar.schedule.costed import Link
    from hypar.schedule.pieces import Pieces
    from hypar.schedule.tasks import Tied
    from hypar.sharding.amounts.counted import Received
    from hypar.sharding.placement import Options


class Exchange(NamedTuple):
    """The gradient of a weight that layers of several stages use, whose sums these stages add up once a mini-batch.

    Attributes:
        members: these stages, that of the weight's own layer first.
        outside: for each of them but the first what it receives at the levels outside the stages, in place of its own sums there.
    """

    members: Tied
    outside: tuple[Pieces, ...]


class _User(NamedTuple):
    """A layer that uses the weight, the first of its stage.

    Attributes:
        number: the number of its part.
        layer: its index in the part.
        span: the part.
    """

    number: int
    layer: int
    span: CutSpan

    @property
    def setting(self) -> Setting:
        """The setting of its stage, or of its first group of identical devices."""
        return self.span.cuts.lane.setting

    @property
    def cut(self) -> PlanNode:
        """The layer."""
        return self.span.cuts.lane.graph.layers[self.layer]

    @property
    def choices(self) -> Options:
        """Its choices where there are levels outside the stages."""
        return self.span.cuts.lane.choices[self.layer] if self.span.site.outside else ()


def exchanges_of(stages: Sequence[CutSpan], count: int) -> tuple[Exchange, ...]:
    """Return the gradients that several stages add up; none below uneven splits, which keep a weight for each layer.

    The stage of the weight's own layer gets the sums of the others, and each of these the sum of all. Layers of one stage add up
    theirs inside it; of those of several of its parts the first counts.

    Args:
        stages: the parts of the stages in the network's order, in turn of the first stage to the last.
        count: the number of stages.
    """
    ties: dict[int, list[Tensor]] = {}
    for tie in stages[0].ties:
        ties.setdefault(tie.producer, []).append(tie)
    if not ties or any(span.site.outside and isinstance(span.cuts.node, Branching) for span in stages):
        return ()
    places = [
        _User(number, layer, span) for number, span in enumerate(stages) for layer in range(span.layers)
    ]
    found = []
    for owner, own in ties.items():
        users: dict[int, _User] = {}
        for layer in (owner, *(tie.consumer for tie in own)):
            users.setdefault(places[layer].number % count, places[layer])
        if len(users) > 1:
            found.append(_exchange(stages, [*users.values()], own[0]))
    return tuple(found)


def _exchange(stages: Sequence[CutSpan], users: Sequence[_User], tie: Tensor) -> Exchange:
    """Return the gradient of a weight that some stages add up."""
    first, *others = users
    received = [_received(first, other, tie) for other in others]
    seams = [[one for one in own if one.level == SEAM] for own in received]
    each = [[back for back, _ in seams], *([there] for _, there in seams)]
    groups = {user.span.site.group for user in users}
    members = []
    for user, arrivals in zip(users, each, strict=True):
        size = user.setting.element_bytes
        link = _link(stages, user.span.site.group, outward=len(groups) > 1)
        arrived = (Arrival(user.layer, None, size * one.elements, one.receivers) for one in arrivals)
        members.append((user.number, user.layer, Entering.over(link, arrived)))
    outside = tuple(
        priced(user.setting, [one for one in own if SEAM < one.level < user.span.site.outside])
        for user, own in zip(others, received, strict=True)
    )
    return Exchange(tuple(members), outside)


def _received(owner: _User, user: _User, tie: Tensor) -> tuple[Received, ...]:
    """Return what the weight's own stage receives from another one, and what this one gets back, at the seam and outside it."""
    outside = owner.span.site.outside
    array = owner.setting.array if outside else ()
    between, parts = between_of(owner.cut, user.cut, tie), parts_of_weight(tie.elements)
    return received_between(between, parts, array, (owner.choices, user.choices), outside=outside)


def _link(stages: Sequence[CutSpan], group: str | None, *, outward: bool) -> Link | None:
    """Return the link that carries tensors to a stage of a device group, from another group or from its own."""
    sites = (span.site for span in stages if span.site.group == group)
    links = (link for site in sites for link in site.links if link is not None)
    return next((link for link in links if isinstance(link, DeviceGroup) == outward), None)
