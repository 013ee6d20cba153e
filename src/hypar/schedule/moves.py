"""The transfers that the choices of all levels cause inside a layer and between two, with their seconds."""

from __future__ import annotations

import math
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from hypar.machine.work import unevenness
from hypar.sharding.amounts.above import outermost
from hypar.sharding.amounts.counted import received_between, received_inside
from hypar.sharding.placement import degrees

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.machine.setting import Setting
    from hypar.network.nodes import PlanGraph
    from hypar.ops.nest import Nest
    from hypar.sharding.amounts.above import State
    from hypar.sharding.amounts.counted import Received
    from hypar.sharding.amounts.factors import Above
    from hypar.sharding.amounts.transfers import Between, Part, Sums
    from hypar.sharding.placement import Options

PHASE = "gradient"
"""The phase whose results are exchanged in chunks."""

BETWEEN_STAGES = -1
"""In place of a level: the transfers between stages."""


def level_name(level: int) -> str:
    """Return the name of a level, as ``H1``; of ``BETWEEN_STAGES`` it is ``stages``."""
    return "stages" if level == BETWEEN_STAGES else f"H{level + 1}"


class Move(NamedTuple):
    """A transfer at one level.

    Attributes:
        phase: the phase that it belongs to.
        level: the level, 0 for the outermost; ``BETWEEN_STAGES``.
        seconds: its duration.
        subgroup_bytes: bytes that each subgroup of a group receives.
        subgroup_devices: devices of a subgroup, which share these bytes.
        device_bytes: bytes that the fullest device receives; of a transfer between two layers a device at work on average.
        total_bytes: bytes that all devices receive.
        collective: name of the collective.
        fuller: for each lane that it occupies how many times these bytes its fullest device receives; nothing for once.
    """

    phase: str
    level: int
    seconds: float
    subgroup_bytes: float
    subgroup_devices: int
    device_bytes: float
    total_bytes: float
    collective: str
    fuller: tuple[float, ...] = ()


class Moves(tuple[Move, ...]):  # noqa: SLOT001 (the phases are kept with it)
    """Transfers in the order in which they run."""

    @cached_property
    def phases(self) -> dict[str, Moves]:
        """The transfers of each phase that has any."""
        names = dict.fromkeys([move.phase for move in self])
        return {name: Moves([move for move in self if move.phase == name]) for name in names}


NO_MOVES = Moves()


class Link(Protocol):
    """A link that brings bytes: of a machine's level, or of a device group from the others."""

    def seconds(self, collective: str, num_bytes: Any, /) -> Any:
        """Return the time until bytes have been received by a collective."""


def merged(moves: Sequence[Move], link: Link) -> Move:
    """Return several transfers of one level and collective as one over a link, so that latency is paid once."""
    first, *others = moves
    if not others:
        return first
    each, total_bytes = (
        math.fsum(amounts)
        for amounts in zip(*[(move.subgroup_bytes, move.total_bytes) for move in moves], strict=True)
    )
    weights = [(move.total_bytes / total_bytes, move.fuller) for move in moves]
    lanes = range(max(len(move.fuller) for move in moves))
    return first._replace(
        seconds=link.seconds(first.collective, each),
        subgroup_bytes=each,
        device_bytes=math.fsum(move.device_bytes for move in moves),
        total_bytes=total_bytes,
        fuller=tuple(
            [math.fsum(part * (more[lane] if more else 1.0) for part, more in weights) for lane in lanes]
        ),
    )


EVEN: Mapping[str, float] = {}
"""How much more the fullest device receives of a tensor than all do on average: of none, if they are taken to share evenly."""


INSIDE = {"forward": "output", "backward": "input", PHASE: "weight"}
"""The tensor of a layer that is added up in each phase."""


@lru_cache(maxsize=16384)
def excess(counted: Nest, held: Nest, chosen: Options) -> dict[str, float]:
    """Return for each tensor of a layer how much more of it the fullest device has than all have on average.

    Args:
        counted: the layer as its transfers are counted, which may be by shares of real numbers of elements.
        held: the layer as devices hold it.
        chosen: its choices.
    """
    counts = degrees(chosen, held.counted)
    return {
        tensor: unevenness(held, counts, tensor)
        * (1.0 if held is counted else _elements(held, tensor) / (_elements(counted, tensor) or math.inf))
        for tensor in held.names
    }


def _elements(nest: Nest, tensor: str) -> float:
    return float(nest.input_elements if tensor == "input" else nest.elements(tensor))


@lru_cache(maxsize=16384)
def elements_on(nest: Nest, tensor: str, chosen: Options) -> float:
    """Return the elements of a layer's tensor that a device has on average."""
    carried = nest.names[tensor]
    counts = zip(nest.counted, degrees(chosen, nest.counted), strict=True)
    return _elements(nest, tensor) / math.prod(count for dim, count in counts if dim in carried)


@lru_cache(maxsize=16384)
def in_whole_elements(moves: Moves, counted: Nest, held: Nest, chosen: Options) -> Moves:
    """Return the transfers inside a layer with the bytes that devices hold of them; arguments as above."""
    if not moves or held is counted:
        return moves
    own, average = excess(counted, held, chosen), excess(counted, counted, chosen)
    scales = {
        phase: own[tensor] / average[tensor] if average[tensor] else 1.0 for phase, tensor in INSIDE.items()
    }
    return Moves(move._replace(device_bytes=move.device_bytes * scales[move.phase]) for move in moves)


def moves_of(
    setting: Setting, graph: PlanGraph, choices: Sequence[Options], entered: State | None = None
) -> tuple[list[Moves], list[Moves]]:
    """Return the transfers inside each layer, and those of each tensor between two layers.

    The gradient of a weight that two layers use is added up inside the layer whose weight it is.

    Equal layers with equal choices share one object, and so do equal tensors between equal choices.

    Args:
        setting: the machine and the convention.
        graph: the layers.
        choices: for each layer a choice at each level.
        entered: the state below uneven splits; None if there are none, or by ``paper``.
    """
    state = entered or outermost(graph, setting.convention)
    network = state.network
    setting, every = _shared(setting), zip(graph.layers, network.sums, choices, strict=True)
    inner = [
        timed_inside(setting, layer.nest, sums, own, state.input(graph, at))
        for at, (layer, sums, own) in enumerate(every)
    ]
    outer: list[Moves] = []
    for at, tensor in enumerate(network.tensors):
        pair = (choices[tensor.producer], choices[tensor.consumer])
        between, parts, above = state.tensor(at)
        sums, found = _across(setting, between, parts, pair, above)
        if sums:
            inner[tensor.producer] = Moves((*inner[tensor.producer], *sums))
        outer.append(found)
    return inner, outer[: len(graph.tensors)]


@lru_cache(maxsize=64)
def _shared(setting: Setting) -> Setting:
    """Return one object for equal settings, so that what is cached by setting is found without comparing fields."""
    return setting


@lru_cache(maxsize=16384)
def timed_inside(
    setting: Setting, nest: Nest, sums: Sums, chosen: Options, above: Above | None = None
) -> Moves:
    """Return the timed transfers of all levels inside a layer, innermost first, so that wider groups exchange sums."""
    found = received_inside(nest, sums, setting.array, chosen, above)
    return timed(setting, found, excess(nest, nest, chosen)) if found else NO_MOVES


@lru_cache(maxsize=16384)
def _across(
    setting: Setting,
    between: Between,
    parts: tuple[Part, ...],
    chosen: tuple[Options, Options],
    above: Above,
) -> tuple[Moves, Moves]:
    """Return the transfers of a tensor that add up the sums of its producer, and the others."""
    found = received_between(between, parts, setting.array, chosen, above)
    sums = timed(setting, tuple([one for one in reversed(found) if one.inside]))
    return sums, timed(setting, tuple([one for one in found if not one.inside]))


def timed(setting: Setting, found: tuple[Received, ...], fuller: Mapping[str, float] = EVEN) -> Moves:
    """Return the timed transfers of counted elements.

    Args:
        setting: the machine.
        found: the transfers.
        fuller: how much more the fullest device receives of a tensor than all do on average, where it does.
    """
    if not found:
        return NO_MOVES
    moves: list[Move] = []
    array, size = setting.array, setting.element_bytes
    links = setting.machine.links(array)
    for level, phase, tensor, collective, elements, receivers, devices, _ in found:
        total_bytes = elements * size
        subgroup_bytes = total_bytes / receivers
        seconds = links[level].seconds(collective, subgroup_bytes)
        inner = math.prod(array[level + 1 :])
        device_bytes = total_bytes / devices * fuller.get(tensor, 1.0)
        moves.append(
            Move(phase, level, seconds, subgroup_bytes, inner, device_bytes, total_bytes, collective)
        )
    return Moves(moves)
