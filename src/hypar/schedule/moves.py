"""The transfers that the choices of all levels cause inside a layer and between two, with their seconds."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from hypar.machine.setting import Setting, working
from hypar.sharding.amounts.above import between_of
from hypar.sharding.amounts.counted import received_between, received_inside
from hypar.sharding.amounts.flows import flows_of
from hypar.sharding.amounts.parts import parts_of
from hypar.sharding.conventions import PAPER
from hypar.sharding.dims import CUTTABLE, SPATIAL
from hypar.sharding.grids.reshard import Gap, reshard
from hypar.sharding.placement import divisor
from hypar.sharding.transfers import (
    PHASE_OF,
    Transfer,
    between,
    borders,
    crossing,
    dim_of,
    halo,
    inside,
    simple,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.network.contraction import Content, ContractedGraph, Tensor
    from hypar.network.ops.base import Einsum, Roles
    from hypar.sharding.amounts.counted import Received
    from hypar.sharding.placement import Choice, Options


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
        total_bytes: bytes that all devices receive.
        collective: name of the collective.
    """

    phase: str
    level: int
    seconds: float
    subgroup_bytes: float
    subgroup_devices: int
    total_bytes: float
    collective: str


def moves_of(
    setting: Setting, graph: ContractedGraph, choices: Sequence[Options]
) -> tuple[list[tuple[Move, ...]], list[tuple[Move, ...]]]:
    """Return the transfers inside each layer, and those of each tensor between two layers."""
    if setting.direct or setting.convention == PAPER:
        inner = [
            () if layer.empty else moves_inside(setting, layer.einsum, layer.output_elements, choices[at])
            for at, layer in enumerate(graph.layers)
        ]
        return inner, [_paper_between(setting, graph, choices, tensor) for tensor in graph.tensors]
    flows = flows_of(graph, setting.convention)
    inner, outer = [], []
    for layer, sums, chosen in zip(graph.layers, flows.sums, choices, strict=True):
        inner.append(timed(setting, received_inside(layer.einsum, sums, setting.array, chosen)))
    for tensor, flow in zip(graph.tensors, flows.tensors, strict=True):
        ends = (tensor.producer, tensor.consumer)
        between, pair = between_of(graph, tensor, flow), (choices[ends[0]], choices[ends[1]])
        reader = graph.layers[ends[1]].einsum
        found = received_between(reader, between, parts_of(flow, between), setting.array, pair)
        sums_up = tuple(one for one in reversed(found) if one.inside)
        inner[ends[0]] += timed(setting, sums_up)
        outer.append(timed(setting, tuple(one for one in found if not one.inside)))
    return inner, outer


def _paper_between(
    setting: Setting, graph: ContractedGraph, choices: Sequence[Options], tensor: Tensor
) -> tuple[Move, ...]:
    """Return the transfers of a tensor, each level by itself."""
    made, read = graph.layers[tensor.producer], graph.layers[tensor.consumer]
    if made.empty or read.empty:
        return ()
    chosen = (choices[tensor.producer], choices[tensor.consumer])
    return moves_between(setting, (made.einsum, read.einsum), tensor.content, chosen)


@lru_cache(maxsize=16384)
def timed(setting: Setting, found: tuple[Received, ...]) -> tuple[Move, ...]:
    """Return the timed transfers of counted elements."""
    moves = []
    for one in found:
        total_bytes = one.elements * setting.element_bytes
        link, subgroup_bytes = setting.machine.links(setting.array)[one.level], total_bytes / one.receivers
        moves.append(
            Move(
                phase=one.phase,
                level=one.level,
                seconds=link.seconds(one.collective, subgroup_bytes),
                subgroup_bytes=subgroup_bytes,
                subgroup_devices=math.prod(setting.array[one.level + 1 :]),
                total_bytes=total_bytes,
                collective=one.collective,
            )
        )
    return tuple(moves)


@lru_cache(maxsize=16384)
def _left(einsum: Roles, chosen: Options, name: str) -> tuple[float, ...]:
    """Return the fraction of a tensor or of a dim that the levels above each level leave a group."""
    found, total = [], 1.0
    for choice in chosen:
        found.append(total)
        total /= choice.degree(name) if name in CUTTABLE else divisor(einsum, choice, name)
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
def moves_inside(setting: Setting, einsum: Einsum, output_elements: int, chosen: Options) -> tuple[Move, ...]:
    """Return the transfers of all levels inside a layer, innermost first, so that wider groups exchange sums."""
    found, roles, array = [], einsum.roles, setting.array
    reaching = bool(einsum.windows) and not setting.direct
    for level, shares in _shares_inside(roles, chosen, array, setting.direct):
        choice, ways = chosen[level], array[level]
        for transfer, _, left, groups in shares:
            whole = output_elements if transfer.tensor == "output" else einsum.elements(transfer.tensor)
            found.append(_move(setting, transfer, level, whole * left, groups))
        for border in borders(einsum, choice, ways) if reaching else ():
            fraction = float(halo(border, _left(roles, chosen, border.dim)[level]))
            transfer = Transfer(PHASE_OF["input"], "input", "neighbours", fraction, choice.devices(ways))
            amount = einsum.input_elements * _left(roles, chosen, "input")[level]
            found.append(_move(setting, transfer, level, amount, working(chosen[:level], array)))
    return tuple(found)


@lru_cache(maxsize=4096)
def _shares_inside(
    roles: Roles, chosen: Options, array: tuple[int, ...], direct: bool
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
    setting: Setting, ends: tuple[Einsum, Einsum], content: Content, chosen: tuple[Options, Options]
) -> tuple[Move, ...]:
    """Return the transfers of a tensor between two layers at all levels, outermost first."""
    unsized = (ends[0].unsized(), ends[1].unsized())
    if not setting.direct and _along_one_dim(chosen, setting.array):
        shares = _shares_between(unsized, content.contracted, chosen, setting.array)
        return tuple(
            [
                _move(setting, one.transfer, one.level, content.elements * one.left, one.groups)
                for one in shares
            ]
        )
    found, roles = [], ends[1].roles
    for level, (maker, reader) in enumerate(zip(*chosen, strict=True)):
        ways = setting.array[level]
        groups = working(chosen[1][:level], setting.array)
        if setting.direct or not (simple(maker, ways) and simple(reader, ways)):
            fractions = tuple(_left(roles, chosen[1], dim)[level] for dim in ends[1].input)
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
    unsized: tuple[Einsum, Einsum],
    contracted: frozenset[str],
    chosen: tuple[Options, Options],
    array: tuple[int, ...],
) -> tuple[_Share, ...]:
    """Return the transfers at all levels between two layers that divide one dim each, without halo, outermost first."""
    made, read = unsized
    left = _left(read.roles, chosen[1], "input")
    return tuple(
        _Share(transfer, level, left[level], working(chosen[1][:level], array))
        for level, (maker, reader) in enumerate(zip(*chosen, strict=True))
        for transfer in between(made, maker, read, reader, contracted, array[level])
    )


def _between(
    ends: tuple[Einsum, Einsum], chosen: tuple[Choice, Choice], content: Content, size: float, ways: int
) -> list[Transfer]:
    """Return the transfers between two layers under simple choices, a halo merged with a transfer of the same collective."""
    made, read = ends
    args = (made.unsized(), chosen[0], read.unsized(), chosen[1], content.contracted, ways)
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
    return Move(
        phase=transfer.phase,
        level=level,
        seconds=setting.machine.links(setting.array)[level].seconds(transfer.collective, subgroup_bytes),
        subgroup_bytes=subgroup_bytes,
        subgroup_devices=math.prod(setting.array[level + 1 :]),
        total_bytes=group_bytes * groups,
        collective=transfer.collective,
    )


PHASE = "gradient"
"""The phase whose results are exchanged in chunks."""
