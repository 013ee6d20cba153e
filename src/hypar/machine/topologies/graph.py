"""Graph topology: links between devices, listed one by one.

Messages are divided equally over the shortest paths. There may be very many, so paths are counted, not listed:
the number of shortest paths over ``u`` to ``v`` is the number that lead to ``u`` times the number that lead from
``v``. The counts of all links are then decomposed into a few paths, each with its fraction.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from hypar.machine.topologies.base import Link, Path, Topology, Wired

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Device = Annotated[int, Field(ge=0, lt=2**20)]
Ends = Annotated[list[Device], Field(min_length=2, max_length=2)]
Pairs = tuple[tuple[int, ...], ...]


class Graph(Wired):
    """Pairs of devices, each linked in both directions; a pair given twice is twice as wide."""

    pairs: Annotated[list[Ends], Field(min_length=1)]

    def links(self, devices: int) -> Mapping[Link, float]:  # noqa: ARG002
        """Return both directions of each pair."""
        found: dict[Link, float] = {}
        for one, other in self.pairs:
            for link in ((one, other), (other, one)):
                found[link] = found.get(link, 0.0) + 1.0
        return found

    def paths(self, source: int, target: int, devices: int) -> Sequence[Path]:  # noqa: ARG002
        """Return shortest paths whose fractions load links as all shortest paths in equal fractions would."""
        return _shortest(self._written(), source, target)

    def num_links(self, devices: int) -> int:  # noqa: ARG002
        """Return the number of listed pairs."""
        return len(self.pairs)

    def fault(self, devices: int) -> str | None:
        """Refuse devices without a link or a path to all others, and links to no other device."""
        one, other = max(self.pairs, key=max)
        if max(one, other) >= devices:
            return f"a link of device {max(one, other)}; allowed: 0 to {devices - 1}"
        for one, other in self.pairs:
            if one == other:
                return f"a link from device {one} to itself; allowed: two devices"
        around = _neighbours(self._written())
        for device in range(devices):
            if device not in around:
                return f"device {device} has no link; allowed: a path between any two devices"
        apart = set(range(devices)) - set(_counted(self._written(), 0))
        return (
            f"no path from device 0 to device {min(apart)}; allowed: one between any two" if apart else None
        )

    def _written(self) -> Pairs:
        return tuple(map(tuple, self.pairs))


@lru_cache(maxsize=16)
def _neighbours(pairs: Pairs) -> dict[int, tuple[int, ...]]:
    """Return the linked devices of each device, ascending."""
    found: dict[int, set[int]] = {}
    for one, other in pairs:
        found.setdefault(one, set()).add(other)
        found.setdefault(other, set()).add(one)
    return {device: tuple(sorted(beside)) for device, beside in found.items()}


@lru_cache(maxsize=256)
def _counted(pairs: Pairs, source: int) -> dict[int, tuple[int, int]]:
    """Return the distance of each reachable device and the number of shortest paths to it."""
    around = _neighbours(pairs)
    found = {source: (0, 1)}
    border = [source]
    while border:
        after: list[int] = []
        for device in border:
            distance, count = found[device]
            for beside in around[device]:
                if beside not in found:
                    after.append(beside)
                if found.get(beside, (distance + 1, 0))[0] == distance + 1:
                    found[beside] = distance + 1, found.get(beside, (0, 0))[1] + count
        border = after
    return found


@lru_cache(maxsize=4096)
def _shortest(pairs: Pairs, source: int, target: int) -> tuple[Path, ...]:
    """Return paths from source to target: repeatedly the first with flow left, with all that fits along it."""
    left = _flow(pairs, source, target)
    total = _counted(pairs, source)[target][1]
    found, rest = [], total
    while rest:
        path: list[tuple[int, int]] = []
        at = source
        while at != target:
            after = next(after for after in sorted(left[at]) if left[at][after])
            path.append((at, after))
            at = after
        amount = min((left[one][other] for one, other in path), default=rest)
        for one, other in path:
            left[one][other] -= amount
        found.append((amount / total, tuple(path)))
        rest -= amount
    return tuple(found)


def _flow(pairs: Pairs, source: int, target: int) -> dict[int, dict[int, int]]:
    """Return the number of shortest paths over each link, from device to device."""
    reached, around = _counted(pairs, source), _neighbours(pairs)
    onward, found = {target: 1}, dict[int, dict[int, int]]()
    border = [target] if target != source else []
    while border:
        before: dict[int, None] = {}
        for device in border:
            for beside in around[device]:
                if reached[beside][0] == reached[device][0] - 1:
                    found.setdefault(beside, {})[device] = reached[beside][1] * onward[device]
                    onward[beside] = onward.get(beside, 0) + onward[device]
                    before[beside] = None
        border = list(before)
    return found


plugins: dict[str, type[Topology]] = {"graph": Graph}
