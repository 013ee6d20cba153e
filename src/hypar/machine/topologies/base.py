"""Base class of topologies, and traffic on their links: messages of a byte each, listed or as outer products of sets, and what they load.

Several networks of one wiring stand side by side. Messages are counted, their paths are not listed: what leaves a run of
places follows from the counts on its two sides, and the loads of a line or a ring are one cumulative sum of the messages that
start and end at each place.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hypar.files.validation import Record

Amounts = NDArray[np.float64]
Numbers = NDArray[np.int64]


class Topology(Record):
    """Wiring of some devices; subclasses add the fields of a hardware file."""

    takes_sets: ClassVar[bool] = True
    """Whether messages may be given as sets, without a list of them."""

    @abstractmethod
    def loads(self, sent: Traffic, devices: int) -> Loads:
        """Return what messages load.

        Args:
            sent: the messages, of several networks of this wiring; listed, unless the topology ``takes_sets``.
            devices: number of devices wired.
        """

    @abstractmethod
    def num_links(self, devices: int) -> int:
        """Return the number of links that share a total bandwidth; one counts for both directions."""

    @property
    def adds_up(self) -> bool:
        """Whether its nodes add up the messages of an all-reduce and send the sum back."""
        return False

    def places(self, factors: Sequence[int]) -> Sequence[int]:
        """Return the device at each position of the array; positions count in mixed radix.

        Args:
            factors: prime factors of the array's ways, outermost first.
        """
        return range(math.prod(factors))

    def coordinates(self, device: Numbers, devices: int) -> tuple[Numbers, ...]:  # noqa: ARG002
        """Return the coordinates of devices: one for each dimension of the network."""
        return (device,)

    def fault(self, devices: int) -> str | None:  # noqa: ARG002
        """Return why this number of devices, at least one, cannot be wired so; None if it can."""
        return None


# Traffic


class Loads(NamedTuple):
    """What messages load.

    Attributes:
        busy: bytes over each link in bandwidths of one link, a row for each of two opposite directions: [2, link].
        crossed: bytes over all links.
        hops: links on the longest path of each message, or of each set.
    """

    busy: Amounts
    crossed: float
    hops: Numbers


class Listed(NamedTuple):
    """Messages one by one; places of all networks are numbered through.

    Attributes:
        starts: place of each sender.
        ends: place of each receiver, in the same network; the same place if nothing is sent.
        places: places of all networks.
    """

    starts: Numbers
    ends: Numbers
    places: int

    def leaving(self, width: int) -> tuple[Amounts, Amounts, Numbers]:
        """Return the messages out of and into each run of ``width`` places, and whether each message leaves its run."""
        starts, ends = self.starts // width, self.ends // width
        moved = starts != ends
        out, into = (np.bincount(own[moved], minlength=self.places // width) for own in (starts, ends))
        return out.astype(np.float64), into.astype(np.float64), moved.astype(np.int64)

    def pairs(self, devices: int) -> tuple[Amounts, Numbers]:
        """Return the messages between any two places of a network, [start, end], and whether each is sent."""
        moved = self.starts != self.ends
        code = (self.starts * devices + self.ends % devices)[moved]
        found = np.bincount(code, minlength=self.places * devices).astype(np.float64)
        return found.reshape(-1, devices, devices), moved.astype(np.int64)

    def legs(self, rows: int, columns: int) -> tuple[Listed, Listed]:
        """Return the same messages along the rows of a grid, then along its columns, each line a network."""
        corner = self.starts // columns * columns + self.ends % columns
        line = corner // (rows * columns) * columns + corner % columns
        down = [line * rows + own // columns % rows for own in (corner, self.ends)]
        return Listed(self.starts, corner, self.places), Listed(down[0], down[1], self.places)

    def back(self) -> Listed:
        """Return the messages the other way."""
        return Listed(self.ends, self.starts, self.places)

    def ahead(self, size: int, longest: int, *, halved: bool, closed: bool) -> Amounts:
        """Return the changes of the load behind each place by messages of up to ``longest`` places on; arguments as of ``walked``."""
        away = self.ends - self.starts
        steps = away % size if closed else np.maximum(away, 0)
        each = np.where(steps == longest, 0.5, 1.0) if halved else None
        first, cells = self.starts + self.starts // size * size, 2 * self.places
        last = first + np.where(steps <= longest, steps, 0)
        started, ended = (np.bincount(own, each, cells).astype(np.float64) for own in (first, last))
        return (started - ended).reshape(-1, 2 * size)

    def distances(self, rows: int, columns: int, *, closed: bool) -> Numbers:
        """Return the links that each message crosses on a grid."""
        down = abs(self.ends // columns % rows - self.starts // columns % rows)
        across = abs(self.ends % columns - self.starts % columns)
        if closed:
            down, across = np.minimum(down, rows - down), np.minimum(across, columns - across)
        found: Numbers = down + across
        return found


class Sets(NamedTuple):
    """Sets of places, each source of which sends a message to each target at another place.

    Attributes:
        sources: how often each place is a source: [set, 1, port, ..., place].
        targets: how often each place is a target: [set, group, 1, ..., place], a network being a group and a port.
        summed: whether the nodes of a tree add up the messages of a set, of which a link has one then.
    """

    sources: Amounts
    targets: Amounts
    summed: bool = False

    def leaving(self, width: int) -> tuple[Amounts, Amounts, Numbers]:
        """Return the messages out of and into each run of ``width`` places, and whether some message of each set leaves one."""
        own, there = (side.reshape(*side.shape[:-1], -1, width).sum(axis=-1) for side in self[:2])
        out = own * (there.sum(axis=-1, keepdims=True) - there)
        into = there * (own.sum(axis=-1, keepdims=True) - own)
        moved = (out > 0).any(axis=tuple(range(1, out.ndim)))
        sides = [(side > 0) * 1.0 if self.summed else side for side in (out, into)]
        return sides[0].sum(axis=0).reshape(-1), sides[1].sum(axis=0).reshape(-1), moved.astype(np.int64)

    def pairs(self, devices: int) -> tuple[Amounts, Numbers]:
        """Return the messages between any two places of a network, [start, end], and whether each set sends some."""
        found = np.einsum("kapx,kgby->gpxy", *self[:2]).reshape(-1, devices, devices)
        found[:, range(devices), range(devices)] = 0.0
        return found, self.leaving(1)[2]

    def legs(self, rows: int, columns: int) -> tuple[Sets, Sets]:
        """Return the same messages along the rows of a grid, then along its columns, each line a network."""
        own, there = (side.reshape(*side.shape[:-1], rows, columns) for side in self[:2])
        along = Sets(own, there.sum(axis=-2, keepdims=True))
        return along, Sets(own.sum(axis=-1)[..., None, :], there.swapaxes(-1, -2))

    def back(self) -> Sets:
        """Return the messages the other way."""
        return Sets(self.targets, self.sources, self.summed)

    def ahead(self, size: int, longest: int, *, halved: bool, closed: bool) -> Amounts:
        """Return the changes of the load behind each place by messages of up to ``longest`` places on; arguments as of ``walked``."""
        own, there, _ = self
        ahead = np.concatenate([there, there if closed else np.zeros_like(there)], axis=-1)
        before = np.concatenate([np.zeros_like(own), own[..., ::-1]], axis=-1)
        change = -ahead * _within(before, longest, halved)[..., ::-1]
        change[..., :size] += own * _within(ahead, longest, halved)[..., :size]
        found: Amounts = change.sum(axis=0)
        return found

    def distances(self, rows: int, columns: int, *, closed: bool) -> Numbers:
        """Return the links of each set's longest path on a grid, by the offsets at which some target is from some source."""
        own, there = (side.reshape(*side.shape[:-1], rows, columns) > 0 for side in self[:2])
        shape = (rows, columns) if closed else (2 * rows, 2 * columns)
        spectra = [np.fft.rfft2(side, s=shape) for side in (own, there)]
        offset = np.fft.irfft2(spectra[0].conj() * spectra[1], s=shape) > 0.5
        down, across = (np.minimum(np.arange(size), size - np.arange(size)) for size in shape)
        far = np.where(offset, down[:, None] + across, 0)
        found: Numbers = far.max(axis=tuple(range(1, far.ndim)))
        return found


def _within(counts: Amounts, longest: int, halved: bool) -> Amounts:
    """Return the counts of the next ``longest`` places behind each place; half of the last one's if halved."""
    total: Amounts = counts.cumsum(axis=-1)
    size = counts.shape[-1]
    padded = np.concatenate([total, np.repeat(total[..., -1:], longest, axis=-1)], axis=-1)
    found: Amounts = padded[..., longest : longest + size] - total
    if halved:
        found = (found + padded[..., longest - 1 : longest - 1 + size] - total) / 2
    return found


Traffic = Listed | Sets


def walked(sent: Traffic, size: int, *, closed: bool, halved: bool) -> Amounts:
    """Return the loads of lines of some places, or of rings: [2, line * place], link ``i`` being behind place ``i``.

    Where ends are joined messages go the shorter way round; those half round go half each way where they are ``halved``, else upwards.
    """
    longest, halved = size // 2 if closed else size - 1, halved and size % 2 == 0
    back = longest - (closed and not halved and size % 2 == 0)
    ways = (sent, longest), (sent.back(), back)
    changes = np.stack([own.ahead(size, most, halved=halved, closed=closed) for own, most in ways])
    loads: Amounts = changes.cumsum(axis=-1)
    return (loads[..., :size] + loads[..., size:]).reshape(2, -1)
