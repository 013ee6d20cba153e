"""The transfers that the choices of all levels cause inside a layer and between two, with their seconds."""

from __future__ import annotations

import math
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

from hypar.machine.machine import unevenness
from hypar.machine.setting import Setting, degrees, working
from hypar.schedule.alike import alike
from hypar.sharding.amounts.counted import received_between, received_inside
from hypar.sharding.conventions import PAPER
from hypar.sharding.dims import SPATIAL
from hypar.sharding.grids.reshard import Gap, reshard
from hypar.sharding.levels import is_tensor
from hypar.sharding.placement import divisor
from hypar.sharding.transfers import (
    Transfer,
    between,
    borders,
    crossing,
    dim_of,
    halo,
    inside,
    phase_of,
    simple,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.network.nodes import Content, PlanGraph
    from hypar.ops.nest import Nest
    from hypar.schedule.alike import Across, Within
    from hypar.sharding.amounts.counted import Received
    from hypar.sharding.amounts.flows import Sums
    from hypar.sharding.placement import Choice, Options
    from hypar.sharding.uneven.entered import Entered

PHASE = "gradient"
"""The phase whose results are exchanged in chunks."""

BETWEEN_STAGES = -1
"""In place of a level: the transfers between stages."""


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

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The phase, the collective and the level of each, as the names of tasks say."""
        return tuple([f"{move.phase} {move.collective} H{move.level + 1}" for move in self])

    def below(self, depth: int) -> Moves:
        """Return the same transfers below a number of uneven splits, which are levels as well."""
        if depth not in self._below:
            self._below[depth] = Moves([move._replace(level=depth + move.level) for move in self])
        return self._below[depth]

    @cached_property
    def _below(self) -> dict[int, Moves]:
        return {0: self}


NO_MOVES = Moves()

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
    return {tensor: unevenness(held, counts, tensor) * more for tensor, more in larger(counted, held).items()}


@lru_cache(maxsize=16384)
def larger(counted: Nest, held: Nest) -> dict[str, float]:
    """Return for each tensor of a layer how much larger it is as devices hold it."""
    if held is counted:
        return dict.fromkeys(INSIDE.values(), 1.0)
    return {
        tensor: _elements(held, tensor) / (_elements(counted, tensor) or math.inf)
        for tensor in INSIDE.values()
    }


def _elements(nest: Nest, tensor: str) -> float:
    return float(nest.input_elements if tensor == "input" else nest.elements(tensor))


@lru_cache(maxsize=16384)
def elements_on(nest: Nest, tensor: str, chosen: Options) -> float:
    """Return the elements of a layer's tensor that a device has on average."""
    carried = nest.names[tensor]
    counts = zip(nest.counted, degrees(chosen, nest.counted), strict=True)
    return _elements(nest, tensor) / math.prod(count for dim, count in counts if dim in carried)


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
    setting: Setting, graph: PlanGraph, choices: Sequence[Options], entered: Entered | None = None
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
    if entered is not None:
        return _moves_below(setting, graph, choices, entered)
    paper = setting.direct or setting.convention == PAPER
    found = alike(graph, PAPER if paper else setting.convention)
    setting = _shared(setting)
    numbers: dict[Options, int] = {}
    kinds = [numbers.setdefault(own, len(numbers)) for own in choices]
    known: dict[object, Moves] = {}
    inner, outer = [], []
    for layer, kind, own in zip(found.layers, kinds, choices, strict=True):
        if (layer, kind) not in known:
            known[layer, kind] = NO_MOVES if layer is None else _within(setting, layer, own)
        inner.append(known[layer, kind])
    crossing: dict[object, tuple[Moves, Moves]] = {}
    for tensor, (maker, reader) in zip(found.tensors, found.ends, strict=True):
        key = (tensor, kinds[maker], kinds[reader])
        if key not in crossing:
            pair = (choices[maker], choices[reader])
            crossing[key] = (NO_MOVES, NO_MOVES) if tensor is None else _across(setting, tensor, pair)
        sums, moves = crossing[key]
        if sums:
            inner[maker] = Moves((*inner[maker], *sums))
        outer.append(moves)
    return inner, outer[: len(graph.tensors)]


def _moves_below(
    setting: Setting, graph: PlanGraph, choices: Sequence[Options], entered: Entered
) -> tuple[list[Moves], list[Moves]]:
    """Return the same below uneven splits, which leave each tensor a state of its own."""
    (flows, dims, parts, _), products = entered
    inner, outer = [], []
    for layer, sums, chosen in zip(graph.layers, flows.sums, choices, strict=True):
        inner.append(timed_inside(setting, layer.nest, sums, chosen))
    for tensor, own, part, above in zip(graph.tensors, dims, parts, products, strict=True):
        ends = (tensor.producer, tensor.consumer)
        pair, reader = (choices[ends[0]], choices[ends[1]]), graph.layers[ends[1]].nest
        found = received_between(reader, own, part, setting.array, pair, above)
        sums_up = timed(setting, tuple([one for one in reversed(found) if one.inside]))
        if sums_up:
            inner[ends[0]] = Moves((*inner[ends[0]], *sums_up))
        outer.append(timed(setting, tuple([one for one in found if not one.inside])))
    return inner, outer


@lru_cache(maxsize=64)
def _shared(setting: Setting) -> Setting:
    """Return one object for equal settings, so that what is cached by setting is found without comparing fields."""
    return setting


@lru_cache(maxsize=16384)
def _within(setting: Setting, layer: Within, chosen: Options) -> Moves:
    """Return the transfers inside a layer."""
    if layer.sums is None:
        return Moves(moves_inside(setting, layer.nest, layer.output_elements, chosen))
    return timed_inside(setting, layer.nest, layer.sums, chosen)


def timed_inside(setting: Setting, nest: Nest, sums: Sums, chosen: Options) -> Moves:
    """Return the timed transfers of all levels inside a layer."""
    counts = degrees(chosen, nest.counted)
    fuller = {tensor: unevenness(nest, counts, tensor) for tensor in nest.tensors}
    return timed(setting, received_inside(nest, sums, setting.array, chosen), fuller)


@lru_cache(maxsize=16384)
def _across(setting: Setting, tensor: Across, chosen: tuple[Options, Options]) -> tuple[Moves, Moves]:
    """Return the transfers of a tensor that add up the sums of its producer, and the others."""
    if tensor.between is None or tensor.content is not None:
        assert tensor.content is not None  # noqa: S101 (under ``paper`` there is one)
        return NO_MOVES, Moves(moves_between(setting, tensor.ends, tensor.content, chosen))
    found = received_between(tensor.ends[1], tensor.between, tensor.parts, setting.array, chosen)
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


@lru_cache(maxsize=16384)
def _left(nest: Nest, chosen: Options, name: str) -> tuple[float, ...]:
    """Return the fraction of a tensor or of a dim that the levels above each level leave a group."""
    found, total = [], 1.0
    for choice in chosen:
        found.append(total)
        total /= divisor(nest, choice, name) if is_tensor(name) else choice.degree(name)
    return tuple(found)


class _Share(NamedTuple):
    """A transfer at one level of a tensor of any size.

    Attributes:
        transfer: the transfer.
        level: the level.
        left: the fraction of the tensor that the levels above leave a group.
        groups: the number of groups that work.
    """

    transfer: Transfer
    level: int
    left: float
    groups: int


@lru_cache(maxsize=16384)
def moves_inside(setting: Setting, nest: Nest, output_elements: int, chosen: Options) -> tuple[Move, ...]:
    """Return the transfers of all levels inside a layer, innermost first, so that wider groups exchange sums."""
    found, roles, array = [], nest.unsized, setting.array
    reaching = bool(nest.windows) and not setting.direct
    for level, shares in _shares_inside(roles, chosen, array, setting.direct):
        choice, ways = chosen[level], array[level]
        for transfer, _, left, groups in shares:
            as_read = transfer.tensor == "output" and not setting.direct
            whole = output_elements if as_read else nest.elements(transfer.tensor)
            found.append(_move(setting, transfer, level, whole * left, groups))
        for border in borders(nest, choice, ways) if reaching else ():
            fraction = float(halo(border, _left(roles, chosen, border.dim)[level]))
            transfer = Transfer(phase_of("input"), "input", "neighbours", fraction, choice.devices(ways))
            amount = nest.input_elements * _left(roles, chosen, "input")[level]
            found.append(_move(setting, transfer, level, amount, working(chosen[:level], array)))
    counts = degrees(chosen, nest.counted)
    more = {phase: unevenness(nest, counts, tensor) for phase, tensor in INSIDE.items()} if found else {}
    return tuple([move._replace(device_bytes=more[move.phase] * move.device_bytes) for move in found])


@lru_cache(maxsize=4096)
def _shares_inside(
    roles: Nest, chosen: Options, array: tuple[int, ...], direct: bool
) -> tuple[tuple[int, tuple[_Share, ...]], ...]:
    """Return the reductions of partial sums inside a layer of some roles at each level, innermost first."""
    return tuple(
        (
            level,
            tuple(
                _Share(
                    transfer,
                    level,
                    _left(roles, chosen, transfer.tensor)[level],
                    working(chosen[:level], array),
                )
                for transfer in inside(roles, chosen[level], array[level], direct)
            ),
        )
        for level in reversed(range(len(chosen)))
    )


@lru_cache(maxsize=16384)
def moves_between(
    setting: Setting, ends: tuple[Nest, Nest], content: Content, chosen: tuple[Options, Options]
) -> tuple[Move, ...]:
    """Return the transfers of a tensor between two layers at all levels, outermost first."""
    unsized = (ends[0].unsized, ends[1].unsized)
    if not setting.direct and _along_one_dim(chosen, setting.array):
        shares = _shares_between(unsized, content.contracted, chosen, setting.array)
        return tuple(
            [
                _move(setting, one.transfer, one.level, content.elements * one.left, one.groups)
                for one in shares
            ]
        )
    found, roles = [], ends[1].unsized
    for level, (maker, reader) in enumerate(zip(*chosen, strict=True)):
        ways = setting.array[level]
        groups = working(chosen[1][:level], setting.array)
        if setting.direct or not (simple(maker, ways) and simple(reader, ways)):
            fractions = tuple(_left(roles, chosen[1], dim)[level] for dim in ends[1].names["input"])
            for moved in reshard(Gap(ends, content, ways, fractions, setting.direct), maker, reader):
                if moved.elements:
                    transfer = Transfer(moved.phase, "input", moved.collective, 1.0, moved.devices)
                    found.append(_move(setting, transfer, level, moved.elements, groups))
        else:
            amount = content.elements * _left(roles, chosen[1], "input")[level]
            size = _left(roles, chosen[1], dim_of(reader) or "input")[level]
            transfers = _between(ends, (maker, reader), content, size, ways)
            found += [_move(setting, transfer, level, amount, groups) for transfer in transfers]
    return tuple(found)


@lru_cache(maxsize=4096)
def _along_one_dim(chosen: tuple[Options, Options], array: tuple[int, ...]) -> bool:
    """Return whether every level divides one dim of each of two layers, none along which the second's windows reach."""
    return all(
        simple(choice, ways) for end in chosen for choice, ways in zip(end, array, strict=False)
    ) and all({*SPATIAL}.isdisjoint(choice.divided) for choice in chosen[1])


@lru_cache(maxsize=4096)
def _shares_between(
    unsized: tuple[Nest, Nest],
    contracted: frozenset[str],
    chosen: tuple[Options, Options],
    array: tuple[int, ...],
) -> tuple[_Share, ...]:
    """Return the transfers at all levels between two layers that divide one dim each, without halo, outermost first."""
    made, read = unsized
    left = _left(read.unsized, chosen[1], "input")
    return tuple(
        _Share(transfer, level, left[level], working(chosen[1][:level], array))
        for level, (maker, reader) in enumerate(zip(*chosen, strict=True))
        for transfer in between(made, maker, read, reader, contracted, array[level])
    )


def _between(
    ends: tuple[Nest, Nest], chosen: tuple[Choice, Choice], content: Content, size: float, ways: int
) -> list[Transfer]:
    """Return the transfers between two layers under simple choices, a halo merged with a transfer of the same collective."""
    made, read = ends
    args = (made.unsized, chosen[0], read.unsized, chosen[1], content.contracted, ways)
    moved = list(between(*args))
    for border in borders(read, chosen[1], ways):
        over = crossing(*args)
        if over is not None:
            extra = Transfer("forward", "input", over[0], over[1] * float(halo(border, size)), ways)
            moved = _with_halo(moved, extra)
    return moved


def _with_halo(moved: list[Transfer], extra: Transfer) -> list[Transfer]:
    """Add a halo to transfers."""
    for index, transfer in enumerate(moved):
        if transfer[:3] == extra[:3]:
            moved[index] = transfer._replace(fraction=transfer.fraction + extra.fraction)
            return moved
    return [*moved, extra]


def _move(setting: Setting, transfer: Transfer, level: int, elements: float, groups: int) -> Move:
    """Return the timed transfer of a group's elements, at a level where ``groups`` groups work."""
    group_bytes = transfer.fraction * elements * setting.element_bytes
    subgroup_bytes = group_bytes / transfer.devices
    inner = math.prod(setting.array[level + 1 :])
    return Move(
        phase=transfer.phase,
        level=level,
        seconds=setting.machine.links(setting.array)[level].seconds(transfer.collective, subgroup_bytes),
        subgroup_bytes=subgroup_bytes,
        subgroup_devices=inner,
        device_bytes=subgroup_bytes / inner,
        total_bytes=group_bytes * groups,
        collective=transfer.collective,
    )
