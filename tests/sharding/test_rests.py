"""Rows of edges of a tensor at rest, kept by a node that computes nothing, against sets of indices and published bytes."""

import random
from functools import cache
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np
import pytest

from hypar.ops.dims import atom_of
from hypar.ops.families.contract import Linear
from hypar.ops.nest import Nest, Operand
from hypar.sharding.amounts.counted import received_between
from hypar.sharding.amounts.transfers import Between, Change, Part, parts_of, parts_of_weight
from hypar.sharding.placement import WHOLE, cut
from tests.effort import examples
from tests.transformers import gpt, mixtral

# F: what is needed less what rests there. Backward: terms, of which a sum for each part without a place goes to one.
F = Part("forward", "input", "forward", (Change(1.0, "need", "both"),))
# E: terms go to one owner of each element that has one, and its sum to the places at rest.
E = Part("backward", "input", "errors", (Change(1.0, "need", "owned"), Change(1.0, "kept")))
# S: terms of an output go to owners, and sums to the places where the consumer divides it; its error is gathered.
S = Part("forward", "output", "sums", (Change(1.0, "terms"), Change(1.0, "left")))
BACK = Part("backward", "output", "backward", (Change(1.0, "terms", "left"),))
Devices = frozenset[tuple[int, ...]]
Dims = tuple[str | None, ...]
JOINS, RESTS = (None, "sequence", "hidden"), (None, "in_hidden", "out_ff")
READS, SUMS = ("sequence", "in_hidden", "out_ff"), ("sequence", "in_ff", "out_hidden")
MADE = [layer for model in (mixtral(experts=8), gpt()) for layer in model.contracted.layers]
NODES = {layer.name.removeprefix("h.0."): layer.nest for layer in MADE}
NODES["square"] = Linear(out_features=8).nest(8, ({"channels": 8},))
for name in ("up", "wte", "square"):
    operands = {**NODES[name].operands, "input": Operand({})}
    NODES[f"{name} weight"] = Nest(sizes=NODES[name].sizes, operands=operands, result=Operand({}))


class Edge(NamedTuple):
    """A tensor between two nodes, with the dims that each divides at each level; None for whole."""

    made: str
    read: str
    ends: tuple[Dims, Dims]
    array: tuple[int, ...] = (8,)
    onward: bool = False

    @property
    def between(self) -> Between:
        made, read = NODES[self.made], NODES[self.read]
        operand = "weight" if "weight" in self.made + self.read else "input"
        dims = tuple(atom_of(dim) for dim in read.names[operand] if dim != "batch")
        return Between(made.unsized, read.unsized, dims, frozenset(), self.onward, operand=operand)

    def received(self, *parts: Part) -> list[float]:
        pairs = [zip(end, self.array, strict=True) for end in self.ends]
        made, read = (tuple([cut(dim, ways) if dim else WHOLE for dim, ways in end]) for end in pairs)
        moved = received_between(self.between, parts, self.array, (made, read))
        return [sum(one.elements for one in moved if one.level == at) for at in range(len(self.array))]

    def each(self, *rows: Part) -> Any:
        return np.array([sum(self.received(row)) for row in rows])

    def sets(self, count: Any, places: Dims = (), terms: Dims = ()) -> Any:
        """Return the same of each element by itself, perhaps with other places at rest, or other terms."""
        ends, dims = (places or self.ends[0], terms or self.ends[1]), self.between.dims
        rest, use = (devices_of(self.array, end, dims) for end in ends)
        return pytest.approx(np.mean([*map(count, rest, use)], axis=0))


@cache
def devices_of(array: tuple[int, ...], end: Dims, dims: tuple[str, ...]) -> list[Devices]:
    """The devices that have each element: each level divides a digit of its own of the index along a dim."""
    every = [*product(*map(range, array))]
    atoms, indices = [dim and atom_of(dim) for dim in end], product(every, repeat=len(dims))
    cuts = [(dims.index(dim), at) for at, dim in enumerate(atoms) if dim in dims]
    return [frozenset(c for c in every if all(own[dim][at] == c[at] for dim, at in cuts)) for own in indices]


@cache
def walked(places: Devices, terms: Devices) -> Any:
    """The terms that each level sends to the nearest place, innermost first, added up on the way; copies go back this way."""
    sums, sent = {*terms}, np.zeros(len(min(terms)))
    for level in reversed(range(len(sent))):
        for device in sorted(sums - places):
            near = [one for one in sums | places if one[:level] == device[:level]]
            target = min(near, key=lambda one: (one not in places, one))
            sums, sent[level] = sums - {device} | {target}, sent[level] + (target != device)
    return sent


@cache
def owned(places: Devices, terms: Devices) -> Any:
    """The same of terms that one owner adds up, and of its sums; the best owner is found by trial."""
    ways = [walked(frozenset({one}), terms) + walked(frozenset({one}), places) for one in terms | places]
    return min(ways, key=lambda way: (way.sum(), np.cumsum(way).tolist()))


@pytest.mark.parametrize("seed", range(examples(400, 80)))
def test_what_rests_is_gathered_and_its_errors_are_added_up(seed: int) -> None:
    """A weight, beside any division of its layer, and what several layers read, for which terms of each are kept there."""
    rng = random.Random(seed)
    array = rng.choice(((2,), (8,), (3,), (2, 2), (4, 2), (2, 4), (3, 2), (2, 2, 2)))
    drawn = (RESTS, ("batch", *READS), SUMS, JOINS, JOINS, READS)
    rest, use, sums, made, x, read = (tuple(rng.choices(own, k=len(array))) for own in drawn)
    for edge in (Edge("up weight", "up", (rest, use), array), Edge("add1", "add2", (made, x), array)):
        assert parts_of(edge.between, 1.0, terms=True) == (F, E)
        assert (edge.received(F), edge.received(E)) == (edge.sets(walked), edge.sets(owned))
    reader = Edge("add2", "up", (x, read), array)
    assert reader.received(F) == reader.sets(walked)
    maker = Edge("down", "add1", (sums, made), array, onward=True)
    left = tuple((one == "in_ff" and other) or one for one, other in zip(sums, made, strict=True))
    assert maker.received(F) == maker.sets(walked, left)
    assert maker.received(S) == maker.sets(owned, left, sums)
    assert maker.received(BACK) == maker.sets(walked, left, sums)


def test_zero() -> None:
    """Rajbhandari et al. (2020), 7: stages 1 and 2 move what data parallelism does, stage 3 half as much again."""
    stages = ((None, [E], 2), ("out_ff", [E, F], 2), ("out_ff", [F, F, E], 3))
    for ways, (rest, rows, shares) in product((2, 3, 8), stages):
        edge = Edge("up weight", "up", ((rest,), ("batch",)), (ways,))
        assert sum(edge.received(*rows)) == pytest.approx(shares * (ways - 1))
    hybrid = Edge("up weight", "up", ((None, "out_ff"), ("batch", "batch")), (2, 4))
    assert (hybrid.received(F), hybrid.received(E)) == ([0, 6], [2, 6])


def test_sums_go_to_places_without_terms() -> None:
    """S counts terms at every place of a sum, so that E is the row of a gradient."""
    for use, summed, scattered in (("batch", 1.0, 1.0), ("out_ff", 0.5, 0.0)):
        edge = Edge("up weight", "up", (("in_hidden",), (use,)), (2,))
        back = Edge("up", "up weight", edge.ends[::-1], (2,), onward=True)
        assert (edge.received(E), back.received(S)) == ([summed], [scattered])


@pytest.mark.xfail(strict=True, reason="the dims of a weight go by their atoms, and both are channels")
def test_a_weight_of_channels_at_rest() -> None:
    assert Edge("square weight", "square", (("in_channels",), ("batch",)), (2,)).received(F) == [1.0]


def test_three_users_of_one_weight_add_up_once_where_it_rests() -> None:
    """One user divides the rows of an embedding, two the batch: 4 W if each of the two is held against the first."""
    pair = Edge("wte weight", "head", (("in_vocab",), ("batch",)), (2,))
    assert pair.received(*parts_of_weight(1)) == [2.0]
    for use in ("in_vocab", "batch", "batch"):
        assert Edge("wte weight", "wte", ((None,), (use,)), (2,)).received(F) == [0.0]
    for rest, rows in ((None, (E,)), ("in_vocab", (E, F))):
        assert Edge("wte weight", "wte weight", ((rest,), (None,)), (2,)).received(*rows) == [2.0]


@pytest.mark.parametrize(("array", "count"), [((8,), 8), ((2, 4), 8), ((2, 2), 8), ((2, 4), 16)])
def test_experts_get_pairs_of_token_and_expert(array: tuple[int, ...], count: int) -> None:
    """Every device has a token of each choice of a fourth of the experts, and sends a copy of it to each of them."""
    edge = Edge("dispatch", "gate", (("batch",) * len(array), ("experts",) * len(array)), array)
    devices = [frozenset({one}) for one in product(*map(range, array))]
    pairs = [pair for own in combinations(range(count), count // 4) for pair in product(devices, own)]
    sent = [walked(home, devices[expert * len(devices) // count]) for home, expert in pairs]
    assert edge.received(F) == edge.received(E) == pytest.approx(sum(sent) / len(sent))
