"""Loads of links by a list of messages, in parallel networks of one wiring, without a list of the links of each path."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.machine.sets import PAIR

if TYPE_CHECKING:
    from hypar.machine.sets import Amounts, Numbers


class Listed(NamedTuple):
    """Messages between devices.

    Attributes:
        rails: the parallel network of each, counted from 0.
        starts: its sender.
        ends: its receiver, another device.
        amounts: its bytes.
    """

    rails: Numbers
    starts: Numbers
    ends: Numbers
    amounts: Amounts


class Busy(NamedTuple):
    """Loads of links by messages.

    Attributes:
        loads: bytes over each link in bandwidths of one link, a row for each of two opposite directions: [2, link].
        hops: links on the longest path of each message.
    """

    loads: Amounts
    hops: Numbers


def messages_on_switch(sent: Listed, devices: int) -> Busy:
    """Return the loads of a link of each device to and from a switch."""
    count = (int(sent.rails.max(initial=0)) + 1) * devices
    sides = [
        np.bincount(sent.rails * devices + ends, sent.amounts, count) for ends in (sent.starts, sent.ends)
    ]
    loads: Amounts = np.stack(sides).astype(np.float64)
    return Busy(loads, np.full(len(sent.ends), 2))


def messages_on_tree(sent: Listed, devices: int) -> Busy:
    """Return the loads of a binary tree with a leaf for each device and links twice as wide one level up."""
    rails, starts, ends, amounts = sent
    networks, width = int(rails.max(initial=0)) + 1, 1
    loads, hops = [np.zeros((2, 1))], np.zeros(len(ends), np.int64)
    while width < devices:
        below, moved = devices // width, starts != ends
        crossing = amounts * moved
        sides = [np.bincount(rails * below + own, crossing, networks * below) for own in (starts, ends)]
        loads.append(np.stack(sides) / width)
        starts, ends, width, hops = starts // 2, ends // 2, 2 * width, hops + 2 * moved
    return Busy(np.concatenate(loads, axis=1), hops)


def messages_on_grid(sent: Listed, rows: int, columns: int, *, closed: bool, balanced: bool = False) -> Busy:
    """Return the loads of a grid on which messages go along the row first, then along the column.

    Args:
        sent: the messages.
        rows: number of rows.
        columns: number of columns.
        closed: whether the ends of each row and column are joined, so that messages go the shorter way round.
        balanced: whether messages half round go half each way, and not all to the next device.
    """
    (row, column), (to_row, to_column) = np.divmod(sent.starts, columns), np.divmod(sent.ends, columns)
    networks = int(sent.rails.max(initial=0)) + 1
    loads, hops = [], np.zeros(len(sent.ends), np.int64)
    for line, start, end, size, count in (
        (sent.rails * rows + row, column, to_column, columns, networks * rows),
        (sent.rails * columns + to_column, row, to_row, rows, networks * columns),
    ):
        up, down = _steps(start, end, size, closed=closed)
        halved = (up == down) & (up > 0) if balanced and size > PAIR else np.zeros(len(up), np.bool_)
        there = np.where((up <= down) & (up > 0), sent.amounts, 0.0) / (1 + halved)
        back = np.where((down < up) | halved, sent.amounts, 0.0) / (1 + halved)
        first = _walked(line, start, np.where(there > 0, up, 0), there, size, count)
        other = _walked(line, (start - down) % size, np.where(back > 0, down, 0), back, size, count)
        pair = closed and size == PAIR
        loads.append(np.stack([first[:, :1], first[:, 1:]] if pair else [first, other]).reshape(2, -1))
        hops += np.minimum(up, down)
    return Busy(np.concatenate(loads, axis=1), hops)


def _steps(starts: Numbers, ends: Numbers, size: int, *, closed: bool) -> tuple[Numbers, Numbers]:
    """Return the steps from starts to ends up and down; more than a line is long where there is no such way."""
    away = ends - starts
    if closed:
        return away % size, np.where(away == 0, 0, size - away % size)
    return np.where(away >= 0, away, 2 * size), np.where(away <= 0, -away, 2 * size)


def _walked(
    lines: Numbers, starts: Numbers, steps: Numbers, amounts: Amounts, size: int, count: int
) -> Amounts:
    """Return the loads of the links of lines, [line, link], by messages that walk up from starts."""
    cells, first = 2 * size * count, 2 * size * lines + starts
    change = np.bincount(first, amounts, cells) - np.bincount(first + steps, amounts, cells)
    loads: Amounts = change.reshape(count, 2 * size).cumsum(axis=1)
    return loads[:, :size] + loads[:, size:]
