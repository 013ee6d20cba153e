"""What grids and their solver do at once, by plain loops over choices, devices and dims: to compare with."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.network.einsum import Einsum
    from hypar.sharding.grids.reshard import Gap
    from hypar.sharding.placement import Choice, Options

ORDER = ("batch", "height", "width", "in_channels", "out_channels", "channels")

Box = tuple[tuple[int, int], ...]
"""Where a device's piece of each dim of a tensor begins and ends."""

Table = list[list[int]]


def transfers(gap: Gap, options: tuple[Options, Options]) -> tuple[Table, Table]:
    """Elements of F and of E that all devices receive, for each pair of choices, direct.

    The producer's choices divide dims of the tensor only, so that no piece has several holders.
    """
    made, read = gap.ends
    makes = {tensor: op for op, tensor in made.output.items()}
    reads = {tensor: op for op, tensor in read.input.items()}
    dims = (("batch", made.sizes["batch"]), *gap.content.shape)
    held = [
        {
            device: tuple(_span(size, own.get(makes[dim], (0, 1))) for dim, size in dims)
            for device, own in _pieces(choice, gap.ways)
        }
        for choice in options[0]
    ]
    needed = [
        {
            device: tuple(_read(read, reads[dim], size, own.get(reads[dim], (0, 1))) for dim, size in dims)
            for device, own in _pieces(choice, gap.ways)
        }
        for choice in options[1]
    ]
    forward = [[_forward(holds, needs) for needs in needed] for holds in held]
    backward = [[_backward(holds, needs) for needs in needed] for holds in held]
    return forward, backward


def least(nodes: Sequence[Sequence[float]], edges: Sequence[Sequence[Sequence[float]]]) -> float:
    """The optimum of a chain by node elimination: each inner node is folded into a matrix of its neighbours."""
    left = edges[0]
    for costs, right in zip(nodes[1:-1], edges[1:], strict=True):
        left = [
            [min(row[k] + costs[k] + right[k][j] for k in range(len(costs))) for j in range(len(right[0]))]
            for row in left
        ]
    first, last = nodes[0], nodes[-1]
    return min(first[i] + left[i][j] + last[j] for i in range(len(first)) for j in range(len(last)))


def _pieces(choice: Choice, ways: int) -> list[tuple[int, dict[str, tuple[int, int]]]]:
    """Every device that works, with the number and count of its piece of each dim."""
    degrees = [(dim, choice.degree(dim)) for dim in ORDER]
    count = math.prod(degree for _, degree in degrees)
    found = []
    for turn in range(count):
        own, left = {}, turn
        for dim, degree in reversed(degrees):
            left, place = divmod(left, degree)
            own[dim] = (place, degree)
        found.append((turn * ways // count, own))
    return found


def _span(size: int, piece: tuple[int, int]) -> tuple[int, int]:
    """The elements of a dim that a piece has."""
    return size * piece[0] // piece[1], size * (piece[0] + 1) // piece[1]


def _read(einsum: Einsum, dim: str, size: int, piece: tuple[int, int]) -> tuple[int, int]:
    """The elements of a dim that a piece of the output reads."""
    window = einsum.windows.get(dim)
    if window is None:
        return _span(size, piece)
    low, high = _span(einsum.sizes[dim], piece)
    first = low * window.stride - window.padding
    last = (high - 1) * window.stride - window.padding + window.extent
    return max(first, 0), min(last, size)


def _shared(one: Box, other: Box) -> int:
    """Elements that two boxes share."""
    total = 1
    for (low, high), (first, last) in zip(one, other, strict=True):
        length = min(high, last) - max(low, first)
        if length <= 0:
            return 0
        total *= length
    return total


def _forward(held: dict[int, Box], needed: dict[int, Box]) -> int:
    """What every device needs and does not hold."""
    total = 0
    for device, need in needed.items():
        total += _shared(need, need)
        if device in held:
            total -= _shared(need, held[device])
    return total


def _backward(held: dict[int, Box], needed: dict[int, Box]) -> int:
    """The terms of every device's piece that arise on another."""
    total = 0
    for device, hold in held.items():
        for other, need in needed.items():
            if other != device:
                total += _shared(hold, need)
    return total
