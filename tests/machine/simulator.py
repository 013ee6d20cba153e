"""Messages on the links of a machine, counted one by one: a second derivation of the times of collectives.

Nothing here uses hypar's routing. The paths of each topology are written down again, every link of every network carries
the loads of a round one after another at its bandwidth, and a round ends when its busiest link and its longest way have
ended. The chunks that the messages carry are followed, so that a schedule that does not compute the sum is found.
"""

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from hypar.machine.links import Tier
from hypar.machine.machine import Machine
from hypar.sharding.placement import primes

Chunk = tuple[int, int]
"""A part of the data, and the subgroup to which a reduce-scatter brings its sum."""


@dataclass(frozen=True)
class Message:
    """Chunks from one subgroup to another: added to what is there, or in its place."""

    source: int
    target: int
    chunks: frozenset[Chunk]
    add: bool


Round = list[Message]
Rounds = list[Round]


# Paths


def edges(count: int) -> tuple[int, int]:
    """Rows and columns of the squarest grid."""
    rows = max(number for number in range(1, math.isqrt(count) + 1) if count % number == 0)
    return rows, count // rows


def shape(tier: Tier) -> tuple[int, int]:
    """Rows and columns of a grid."""
    rows = getattr(tier.topology, "rows", None)
    return (rows, tier.devices // rows) if rows else edges(tier.devices)


Ways = list[tuple[float, list[Any]]]
"""The nodes on each way of a message, with the part of it that goes there."""


def paths(tier: Tier, source: int, target: int) -> Ways:
    key = (id(tier), source, target)
    if key not in PATHS:
        PATHS[key] = tier, WALKS[tier.name](tier, source, target)
    return PATHS[key][1]


PATHS: dict[tuple[int, int, int], tuple[Tier, Ways]] = {}


def over_tree(tier: Tier, source: int, target: int) -> Ways:
    """Up to the first node above both, and down."""
    heights = range(tier.devices.bit_length())
    top = next(bits for bits in heights if source >> bits == target >> bits)
    up: list[Any] = [source, *((bits, source >> bits) for bits in range(1, top + 1))]
    down: list[Any] = [*((bits, target >> bits) for bits in range(top - 1, 0, -1)), target]
    return [(1.0, [*up, *down])]


def round_ring(tier: Tier, source: int, target: int) -> Ways:
    """The shorter way round, upward if both are equal."""
    count = tier.devices
    ahead = (target - source) % count
    steps = range(ahead + 1) if ahead <= count - ahead else range(0, ahead - count - 1, -1)
    return [(1.0, [(source + step) % count for step in steps])]


def over_graph(tier: Tier, source: int, target: int) -> Ways:
    """All shortest walks, in equal parts."""
    beside: dict[int, set[int]] = defaultdict(set)
    for one, other in tier.topology.pairs:  # type: ignore[attr-defined]
        beside[one].add(other)
        beside[other].add(one)
    border = [[source]]
    while not any(walk[-1] == target for walk in border):
        border = [
            [*walk, after] for walk in border for after in sorted(beside[walk[-1]]) if after not in walk
        ]
    found = [walk for walk in border if walk[-1] == target]
    return [(1 / len(found), walk) for walk in found]


def goes(tier: Tier, edge: int, away: int) -> list[tuple[float, int]]:
    """Signed steps along a row or a column, with the part of a message that takes them."""
    if not getattr(tier.topology, "wrap", tier.name != "mesh"):
        return [(1.0, away)]
    away %= edge
    if 2 * away == edge and edge > 2 and tier.topology.routing == "balanced":  # type: ignore[attr-defined]
        return [(0.5, away), (0.5, away - edge)]
    return [(1.0, away if 2 * away <= edge else away - edge)]


def over_grid(tier: Tier, source: int, target: int) -> Ways:
    """Along the row, then along the column."""
    rows, columns = shape(tier)
    row, column = divmod(source, columns)
    last_row, last_column = divmod(target, columns)
    found = []
    for (first, along), (second, across) in itertools.product(
        goes(tier, columns, last_column - column), goes(tier, rows, last_row - row)
    ):
        right, down = (1 if steps > 0 else -1 for steps in (along, across))
        nodes = [row * columns + (column + right * step) % columns for step in range(abs(along) + 1)]
        nodes += [(row + down * step) % rows * columns + last_column for step in range(1, abs(across) + 1)]
        found.append((first * second, nodes))
    return found


WALKS: dict[str, Callable[[Tier, int, int], Ways]] = {
    "switch": lambda _, source, target: [(1.0, [source, "switch", target])],
    "fully_connected": lambda _, source, target: [(1.0, [source, target])],
    "h_tree": over_tree,
    "ring": round_ring,
    "graph": over_graph,
    "grid": over_grid,
    "torus": over_grid,
    "mesh": over_grid,
}


def width(tier: Tier, link: tuple[Any, Any]) -> float:
    """The width of a link, in bandwidths of one link."""
    if tier.name == "h_tree":
        return float(2 ** min(0 if isinstance(node, int) else node[0] for node in link))
    if tier.name == "graph":
        return float(sum({*pair} == {*link} for pair in tier.topology.pairs))  # type: ignore[attr-defined]
    return 1.0


# Links of a machine


@dataclass
class Array:
    """Devices of a machine in the order of an array's positions, and a level."""

    machine: Machine
    array: tuple[int, ...]
    level: int
    loads: dict[Any, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tiers = self.machine.tiers
        self.ways, self.inner = self.array[self.level], math.prod(self.array[self.level + 1 :])
        self.count, span = math.prod(self.array), self.ways * self.inner
        assert self.count == self.machine.num_devices
        factors = [prime for ways in self.array for prime in primes(ways)]
        self.places = []
        for tier in self.tiers:
            own: list[int] = []
            while factors and math.prod(own) < tier.devices:
                own.append(factors.pop(0))
            whole = own if math.prod(own) == tier.devices else primes(tier.devices)
            self.places.append(tier.topology.places(whole))
        self.nodes = [self.nodes_of(tier) for tier in range(len(self.tiers))]
        starts = [outer + inside for outer in range(0, self.count, span) for inside in range(self.inner)]
        self.sets = [[start + digit * self.inner for digit in range(self.ways)] for start in starts]

    def node(self, tier: int, device: int) -> tuple[int, int, int]:
        """The group of a network that a device is in, its port and its position."""
        return self.nodes[tier][device]

    def nodes_of(self, tier: int) -> list[tuple[int, int, int]]:
        """The group, port and position of every device in a network."""
        below = math.prod(other.devices for other in self.tiers[tier + 1 :])
        ports = self.tiers[tier].ports or below
        above = below * self.tiers[tier].devices
        return [
            (device // above, device % below // (below // ports), self.places[tier][device % above // below])
            for device in range(self.count)
        ]

    def links(self, source: int, target: int) -> Iterator[tuple[tuple[Any, ...], float, int]]:
        """The links that a message loads, with the part of it, and the tier."""
        for number, tier in enumerate(self.tiers):
            (_, port, start), (group, _, end) = self.node(number, source), self.node(number, target)
            if start != end:
                for part, nodes in paths(tier, start, end):
                    for link in itertools.pairwise(nodes):
                        yield (number, group, port, *link), part, number

    def lengths(self, source: int, target: int) -> Iterator[tuple[Tier, int]]:
        """The links of the longest way of a message over each network."""
        for number, tier in enumerate(self.tiers):
            start, end = self.node(number, source)[2], self.node(number, target)[2]
            if start != end:
                yield tier, max(len(nodes) - 1 for _, nodes in paths(tier, start, end))

    def late(self, source: int, target: int) -> float:
        """The latency of a message: that of every hop of its longest way."""
        return sum(tier.latency_s * hops for tier, hops in self.lengths(source, target))

    def hops(self, one: int, other: int) -> int:
        """Links between two subgroups."""
        return sum(hops for _, hops in self.lengths(one * self.inner, other * self.inner))

    @cached_property
    def every_hops(self) -> list[int]:
        """Links that each message between two members of a set goes over."""
        each = [self.lengths(*ends) for own in self.sets for ends in itertools.permutations(own, 2)]
        return [sum(hops for _, hops in own) for own in each]

    def capacity(self, link: tuple[Any, ...]) -> float:
        return float(self.tiers[link[0]].bytes_per_s * width(self.tiers[link[0]], (link[3], link[4])))

    def busy(self, carried: Counter[Any]) -> float:
        """The seconds until every link has carried its loads one after another."""
        return max(
            float(load + (0 if self.tiers[link[0]].duplex else carried.get((*link[:3], link[4], link[3]), 0)))
            / self.capacity(link)
            for link, load in carried.items()
        )

    def time(self, sent: Counter[tuple[int, int]]) -> tuple[float, float]:
        """Latency and seconds of a round of messages between subgroups, in all groups at once."""
        key = tuple(sorted(sent.items()))
        if key not in self.loads:
            carried: Counter[Any] = Counter()
            latency = 0.0
            for devices in self.sets:
                for (source, target), amount in sent.items():
                    ends = devices[source], devices[target]
                    latency = max(latency, self.late(*ends))
                    for link, part, _ in self.links(*ends):
                        carried[link] += amount * part  # type: ignore[assignment]
            self.loads[key] = latency, self.busy(carried)
        return self.loads[key]

    @property
    def grid(self) -> list[list[int]] | list[int]:
        """The subgroups by their coordinates in the networks: nested lists, one for each edge of two or more."""
        at = {}
        for digit in range(self.ways):
            coordinates: list[int] = []
            for number, tier in enumerate(self.tiers):
                place = self.node(number, digit * self.inner)[2]
                coordinates += divmod(place, shape(tier)[1]) if tier.name in {"torus", "mesh"} else (place,)
            at[tuple(coordinates)] = digit
        values = [sorted({*column}) for column in zip(*at, strict=True)]
        if math.prod(map(len, values)) != self.ways:
            return list(range(self.ways))

        def nested(prefix: tuple[int, ...]) -> Any:
            if len(prefix) == len(values):
                return at[prefix]
            rows = [nested((*prefix, value)) for value in values[len(prefix)]]
            return rows if len(rows) > 1 else rows[0]

        return nested(())  # type: ignore[no-any-return]

    # Time of a schedule

    def achieved(self, rounds: Rounds, chunk_bytes: float) -> tuple[float, float]:
        """Latency and seconds of a schedule, whose chunks have some bytes on each device."""
        latency = seconds = 0.0
        for messages in rounds:
            sent: Counter[tuple[int, int]] = Counter()
            for message in messages:
                sent[message.source, message.target] += len(message.chunks)
            late, busy = self.time(sent)
            latency, seconds = latency + late, seconds + busy * chunk_bytes
        return latency, seconds

    def in_tree(self, data_bytes: float) -> tuple[float, float]:
        """Latency and seconds of an all-reduce whose sums are made in the nodes of the tree: each link once each way."""
        carried: Counter[Any] = Counter()
        latency = 0.0
        for devices in self.sets:
            used = {link for ends in itertools.permutations(devices, 2) for link, _, _ in self.links(*ends)}
            for link in used:
                carried[link] += data_bytes  # type: ignore[assignment]
            latency = max(latency, *itertools.starmap(self.late, itertools.permutations(devices, 2)))
        return latency, self.busy(carried)


# Schedules


def ring(order: Sequence[int], owned: dict[int, frozenset[Chunk]]) -> Rounds:
    """A reduce-scatter round a ring: each member ends with the sum of the chunks that it owns."""
    count = len(order)
    return [
        [
            Message(order[at], order[(at + 1) % count], owned[order[(at - turn) % count]], add=True)
            for at in range(count)
        ]
        for turn in range(1, count)
    ]


def direct(members: Sequence[int], owned: dict[int, frozenset[Chunk]]) -> Rounds:
    return [
        [Message(one, other, owned[other], add=True) for one, other in itertools.permutations(members, 2)]
    ]


def backwards(rounds: Rounds, *, add: bool = False) -> Rounds:
    """The all-gather that sends the sums back in reverse order, or a reduce-scatter that is an all-gather in reverse."""
    return [
        [Message(one.target, one.source, one.chunks, add=add) for one in messages]
        for messages in reversed(rounds)
    ]


def beside(schedules: Iterable[Rounds]) -> Rounds:
    """Schedules that run at the same time."""
    together = itertools.zip_longest(*schedules, fillvalue=[])
    return [list(itertools.chain.from_iterable(rounds)) for rounds in together]


def folded(line: Sequence[int], hops: Any) -> Sequence[int]:
    """A line as a ring: its ends joined if they are neighbours, else every other one there and the others back."""
    if len(line) < 4 or hops(line[-1], line[0]) <= hops(line[0], line[1]):
        return line
    return [*line[0::2], *reversed(line[1::2])]


def flat(grid: Any) -> list[int]:
    return [grid] if isinstance(grid, int) else [one for part in grid for one in flat(part)]


def around(grid: Any) -> list[int] | None:
    """A walk over all cells of a grid of two edges, and back to the first."""
    if isinstance(grid[0], int) or not isinstance(grid[0][0], int):
        return None
    rows, columns = len(grid), len(grid[0])
    if rows % 2 and columns % 2:
        return [cell for number, row in enumerate(grid) for cell in (row[::-1] if number % 2 else row)]
    lines = grid if rows % 2 == 0 else [list(column) for column in zip(*grid, strict=True)]
    walk = [lines[0][0]]
    for number, line in enumerate(lines):
        walk += line[:0:-1] if number % 2 else line[1:]
    return walk + [line[0] for line in lines[:0:-1]]


class Dimensions:
    """Reduce-scatters along the edges of a grid."""

    def __init__(self, grid: Any, hops: Any) -> None:
        self.hops, self.cells = hops, {}
        self.sizes: list[int] = []
        at = grid
        while not isinstance(at, int):
            self.sizes.append(len(at))
            at = at[0]
        for digit, cell in zip(flat(grid), itertools.product(*map(range, self.sizes)), strict=True):
            self.cells[cell] = digit

    def along(self, axis: int, done: Sequence[int], manner: str, part: int) -> Rounds:
        lines = []
        for fixed in itertools.product(
            *(range(size) for number, size in enumerate(self.sizes) if number != axis)
        ):
            cells = [(*fixed[:axis], number, *fixed[axis:]) for number in range(self.sizes[axis])]
            owned = {
                self.cells[cell]: frozenset(
                    digit
                    for other, digit in self.cells.items()
                    if other[axis] == cell[axis] and all(other[own] == cell[own] for own in done)
                )
                for cell in cells
            }
            lines.append(self.line([self.cells[cell] for cell in cells], owned, manner, part))
        return beside(lines)

    def line(self, line: Sequence[int], owned: dict[int, frozenset[int]], manner: str, part: int) -> Rounds:
        # Each chunk has two halves, one for each direction round a ring.
        chunks = {
            digit: [frozenset((2 * part + half, own) for own in owners) for half in (0, 1)]
            for digit, owners in owned.items()
        }
        both = {digit: halves[0] | halves[1] for digit, halves in chunks.items()}
        if manner == "direct":
            return direct(line, both)
        order = folded(line, self.hops)
        if manner == "ring" or len(line) == 2:
            return ring(order, both)
        halves = ({digit: own[half] for digit, own in chunks.items()} for half in (0, 1))
        return beside(ring(way, own) for way, own in zip((order, order[::-1]), halves, strict=True))

    def in_turn(self, axes: Sequence[int], manner: str, part: int = 0) -> list[Rounds]:
        return [self.along(axis, axes[:number], manner, part) for number, axis in enumerate(axes)]

    def at_once(self, manner: str) -> Rounds:
        """All edges at once, each part of the data in another order."""
        count = len(self.sizes)
        orders = [[(part + turn) % count for turn in range(count)] for part in range(count)]
        parts = [self.in_turn(order, manner, part) for part, order in enumerate(orders)]
        return [one for turn in zip(*parts, strict=True) for one in beside(turn)]


def halving(ways: int, distances: Sequence[int]) -> Rounds:
    """A reduce-scatter by recursive halving."""
    rounds: Rounds = []
    done = 0
    for distance in distances:
        other = done | distance
        sent = [
            frozenset((0, own) for own in range(ways) if (own ^ one ^ distance) & other == 0)
            for one in range(ways)
        ]
        rounds.append([Message(one, one ^ distance, chunks, add=True) for one, chunks in enumerate(sent)])
        done = other
    return rounds


def shifts(ways: int) -> Rounds:
    """A reduce-scatter of any number of subgroups, Bruck's all-gather backwards."""
    gather: Rounds = []
    distance = 1
    while distance < ways:
        count = min(distance, ways - distance)
        each = [(one, frozenset((0, (one + block) % ways) for block in range(count))) for one in range(ways)]
        gather.append([Message(one, (one - distance) % ways, blocks, add=False) for one, blocks in each])
        distance *= 2
    return backwards(gather, add=True)


def scatters(own: Array) -> Iterator[tuple[str, int, Rounds]]:
    """Every reduce-scatter: its name, the parts of the data, its rounds."""
    ways, grid = own.ways, own.grid
    one = {digit: frozenset({(0, digit)}) for digit in range(ways)}
    yield "direct", 1, direct(range(ways), one)
    orders = {"ring": list(range(ways)), "hamiltonian": around(grid)}
    for name, order in orders.items():
        if order is not None and not (name == "hamiltonian" and ways == 2):
            yield name, 1, ring(order, one)
            if ways > 2:
                halves = ({digit: frozenset({(half, digit)}) for digit in range(ways)} for half in (0, 1))
                turns = zip((order, order[::-1]), halves, strict=True)
                yield f"{name} two_rings", 2, beside(ring(way, chunks) for way, chunks in turns)
    if ways == 2:
        return
    powers = [1 << height for height in range((ways - 1).bit_length())]
    if ways & (ways - 1):
        yield "halving", 1, shifts(ways)
    else:
        yield "halving", 1, halving(ways, powers)
        yield "halving", 1, halving(ways, powers[::-1])
    dimensions = Dimensions(grid, own.hops)
    count = len(dimensions.sizes)
    for manner in ("ring", "two_rings", "direct"):
        for axes in {tuple(range(count)), tuple(reversed(range(count)))}:
            yield f"dimensions {manner}", 2, list(itertools.chain(*dimensions.in_turn(axes, manner)))
        if count > 1:
            yield f"dimensions at once {manner}", 2 * count, dimensions.at_once(manner)


def all_reduces(own: Array) -> Iterator[tuple[str, int, Rounds]]:
    """Every all-reduce: its name, the parts of the data, its rounds."""
    ways = own.ways
    everything = frozenset((0, digit) for digit in range(ways))
    pairs = list(itertools.permutations(range(ways), 2))
    yield "direct whole", 1, [[Message(one, other, everything, add=True) for one, other in pairs]]
    halves = zip(scatters(own), all_gathers(own), strict=True)
    yield from ((name, parts, [*rounds, *gathers]) for (name, parts, rounds), (*_, gathers) in halves)
    powers = [1 << height for height in range((ways - 1).bit_length())]
    up = [
        [Message(one, one - distance, everything, add=True) for one in range(distance, ways, 2 * distance)]
        for distance in powers
    ]
    yield "tree", 1, [*up, *backwards(up)]
    if not ways & (ways - 1):
        each = [
            [Message(one, one ^ distance, everything, add=True) for one in range(ways)] for distance in powers
        ]
        yield "doubling", 1, each


def onward(rounds: Rounds) -> Rounds:
    """The all-gather round the same ring in the same direction as a reduce-scatter."""
    after: dict[tuple[int, int], int] = {}
    for message in rounds[0]:
        after.setdefault((message.source, min(message.chunks)[0]), message.target)

    def handed_on(chunks: frozenset[Chunk]) -> frozenset[Chunk]:
        return frozenset((part, after[own, part]) for part, own in chunks)

    return [
        [Message(one.source, one.target, handed_on(one.chunks), add=False) for one in messages]
        for messages in rounds
    ]


def all_gathers(own: Array) -> Iterator[tuple[str, int, Rounds]]:
    """Every all-gather: its name, the parts of the data, its rounds."""
    for name, parts, rounds in scatters(own):
        # Round a ring the sums go on in the same direction.
        ahead = name.startswith(("ring", "hamiltonian"))
        yield name, parts, onward(rounds) if ahead else backwards(rounds)


# What a schedule computes


def computed(ways: int, parts: int, rounds: Rounds, *, gathers: bool) -> list[dict[Chunk, frozenset[int]]]:
    """The terms that each subgroup has of each chunk after a schedule.

    Args:
        ways: number of subgroups.
        parts: number of parts of the data.
        rounds: the schedule.
        gathers: whether it begins with the sums, each chunk at its owner, and not with the terms.
    """
    chunks = list(itertools.product(range(parts), range(ways)))
    everyone = frozenset(range(ways))
    state = [
        {
            chunk: (everyone if chunk[1] == own else frozenset()) if gathers else frozenset({own})
            for chunk in chunks
        }
        for own in range(ways)
    ]
    for messages in rounds:
        before = [dict(own) for own in state]
        for message in messages:
            for chunk in message.chunks:
                sent, there = before[message.source][chunk], state[message.target][chunk]
                if message.add:
                    assert not sent & there, "a term is added twice"
                    state[message.target][chunk] = there | sent
                else:
                    assert sent == everyone, "what is handed on is not the sum"
                    state[message.target][chunk] = sent
    return state
