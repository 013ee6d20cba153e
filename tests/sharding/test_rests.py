"""Rows of edges of a tensor at rest, kept by a node that computes nothing, against sets of indices and published bytes."""

from __future__ import annotations

import random
from collections import Counter
from functools import cache
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np
import pytest

from hypar.ops.dims import atom_of
from hypar.ops.families.contract import Linear
from hypar.ops.nest import Nest, Operand
from hypar.sharding.amounts.between import Between, Change, Part
from hypar.sharding.amounts.counted import received_between
from hypar.sharding.amounts.transfers import parts_of, parts_of_weight
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

GPT3: dict[str, Any] = {"sequence": 2048, "hidden": 12288, "kv_heads": 96, "head_dim": 128, "ff": 49152}
MB = 2048 * 12288 * 2 / 1e6 / 8  # of an input of a block in bfloat16, for each of 8 devices
JOINS, RESTS = (None, "sequence", "hidden"), (None, "in_hidden", "out_ff")
READS, SUMS = ("sequence", "in_hidden", "out_ff"), ("sequence", "in_ff", "out_hidden")
MODELS = (mixtral(experts=8), gpt(**GPT3))
NODES = {layer.name.removeprefix("h.0."): layer.nest for one in MODELS for layer in one.contracted.layers}
NODES["square"] = Linear(out_features=8).nest(8, ({"channels": 8},))
for name in ("up", "wte", "square"):
    operands = {**NODES[name].operands, "input": Operand({})}
    NODES[f"{name} weight"] = Nest(sizes=NODES[name].sizes, operands=operands, result=Operand({}))

Devices = frozenset[tuple[int, ...]]
Dims = tuple[str | None, ...]


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
        """Return the elements that each level receives."""
        lines, found = zip(*self.ends, self.array, strict=True), [0.0] * len(self.array)
        pairs = [[cut(dim, ways) if dim else WHOLE for dim in own] for *own, ways in lines]
        made, read = map(tuple, zip(*pairs, strict=True))
        for one in received_between(self.between, parts, self.array, (made, read)):
            found[one.level] += one.elements
        return found

    def sets(self, count: Any, places: Dims = ()) -> Any:
        """Return the same of each element by itself, perhaps with other places at rest."""
        ends, dims = (places or self.ends[0], self.ends[1]), self.between.dims
        each = [*map(count, *(devices_of(self.array, end, dims) for end in ends))]
        return pytest.approx(sum(each) / len(each))


@cache
def devices_of(array: tuple[int, ...], end: Dims, dims: tuple[str, ...]) -> list[Devices]:
    """The devices that have each element: each level divides a digit of its own of the index along a dim."""
    every = [*product(*map(range, array))]
    cuts = [
        (dims.index(dim), at) for at, dim in enumerate(own and atom_of(own) for own in end) if dim in dims
    ]
    indices = product(every, repeat=len(dims))
    return [
        frozenset(one for one in every if all(own[d][at] == one[at] for d, at in cuts)) for own in indices
    ]


@cache
def entering(have: Devices, need: Devices) -> Any:
    """The parts of each level that have an element to get, less those of the level above, which hand it on."""
    cuts = range(1, len(min(need)) + 1)
    return np.diff([len({one[:at] for one in need} - {one[:at] for one in have}) for at in cuts], prepend=0)


@cache
def owned(want: Devices, terms: Devices) -> Any:
    """The same of terms that one owner adds up, and of its sums; the best owner is found by trial."""
    ways = [entering(frozenset({one}), terms) + entering(frozenset({one}), want) for one in terms | want]
    return min(ways, key=lambda way: (way.sum(), np.cumsum(way).tolist()))


@cache
def walked(want: Devices, terms: Devices) -> Any:
    """The same of terms that walk, innermost first, to the nearest place, and are added up on the way."""
    sums, sent = Counter(terms), np.zeros(len(min(terms)))
    for level in reversed(range(len(sent))):
        for device in sorted({*sums} - want):
            near = [one for one in {*sums} | want if one[:level] == device[:level]]
            if (target := min(near, key=lambda one: (one not in want, one))) != device:
                sums[target] += sums.pop(device)
                sent[level] += 1
    assert ({*sums} <= want, sums.total()) == (True, len(terms))
    return sent


@pytest.mark.parametrize("seed", range(examples(400, 80)))
def test_what_rests_is_gathered_and_its_errors_are_added_up(seed: int) -> None:
    """A weight, beside any division of its layer, and what several layers read, for which terms of each are kept there."""
    rng = random.Random(seed)
    array = rng.choice(((2,), (8,), (3,), (2, 2), (4, 2), (2, 4), (3, 2), (2, 2, 2)))
    drawn = (RESTS, ("batch", *READS), SUMS, JOINS, JOINS, READS)
    rest, use, sums, made, x, read = (tuple(rng.choices(own, k=len(array))) for own in drawn)
    for edge in (Edge("up weight", "up", (rest, use), array), Edge("add1", "add2", (made, x), array)):
        assert parts_of(edge.between, 1.0, terms=True) == (F, E)
        assert edge.received(F) == edge.sets(entering)
        assert edge.received(E) == edge.sets(owned)
    reader, maker = (
        Edge("add2", "up", (x, read), array),
        Edge("down", "add1", (sums, made), array, onward=True),
    )
    assert reader.received(F) == reader.sets(entering)
    assert reader.received(F) == reader.sets(walked)
    left, terms = (
        tuple((a == "in_ff" and b) or a for a, b in zip(sums, made, strict=True)),
        maker._replace(ends=(made, sums)),
    )
    assert maker.received(F) == maker.sets(entering, left)
    assert maker.received(S) == terms.sets(owned, left)
    assert maker.received(BACK) == terms.sets(entering, left)


@pytest.mark.parametrize("ways", [2, 3, 8])
def test_zero(ways: int) -> None:
    """Rajbhandari et al. (2020), 7: stages 1 and 2 move what data parallelism does, stage 3 half as much again."""
    for rest, rows, shares in ((None, (E,), 2), ("in_hidden", (E, F), 2), ("out_ff", (F, F, E), 3)):
        edge = Edge("up weight", "up", ((rest,), ("batch",)), (ways,))
        assert edge.received(*rows) == pytest.approx([shares * (ways - 1)])


def test_hybrid_shards() -> None:
    for rest, gathered, summed in ((None, [0, 6], [2, 6]), ("out_ff", [1, 6], [1, 6])):
        edge = Edge("up weight", "up", ((rest, "out_ff"), ("batch", "batch")), (2, 4))
        assert (edge.received(F), edge.received(E)) == (gathered, summed)


def test_sums_go_to_places_without_terms() -> None:
    """S counts terms at every place of a sum, so that E is the row of a gradient."""
    for use, scattered in (("batch", [1.0]), ("out_ff", [0.0])):
        edge = Edge("up weight", "up", (("in_hidden",), (use,)), (2,))
        back = Edge("up", "up weight", edge.ends[::-1], (2,), onward=True)
        assert back.received(S) == scattered
        assert edge.received(E) == edge.sets(owned)


@pytest.mark.xfail(strict=True, reason="the dims of a weight go by their atoms, and both are channels")
def test_a_weight_of_channels_at_rest() -> None:
    assert Edge("square weight", "square", (("in_channels",), ("batch",)), (2,)).received(F) == [1.0]


def test_megatron() -> None:
    """Korthikanti et al. (2022), 4.2: a block of GPT-3, forward and backward; without rests each reader is apart."""
    ends, whole = ((None, 176.16, 352.32), ("sequence", 6 * 44.04, 6 * 44.04)), ((None,), (None,))
    for norms, *apart in ends:
        found = np.zeros((2, 2))
        for maker, own, readers, heads in (
            ("o", "in_kv_heads", "qkv", "kv_heads"),
            ("down", "in_ff", ["up"], "ff"),
        ):
            sums, x = (
                Edge(maker, "add1", ((own,), (norms,)), onward=True),
                Edge("add1", "add2", ((norms,), (None,))),
            )
            each = [
                [Edge("add2", one, ((at,), (f"out_{heads}",))) for one in readers] for at in (None, norms)
            ]
            assert not any(edge.received(F)[0] for edge in each[0])
            found += [sums.received(S), sums.received(BACK)]
            found[:, 0] += x.received(F)[0], x.received(E)[0]
            found[:, 1] += [sum(edge.received(row)[0] for edge in each[1]) for row in (F, E)]
        assert (found * MB).T.tolist() == [pytest.approx(own, abs=0.01) for own in ([176.16] * 2, apart)]
    assert Edge("add1", "add2", whole).received(E)[0] * MB == pytest.approx(88.08, abs=0.005)


def test_three_users_of_one_weight_add_up_once_where_it_rests() -> None:
    """One user divides the rows of an embedding, two the batch: 4 W if each of the two is held against the first."""
    pair = Edge("wte weight", "head", (("in_vocab",), ("batch",)), (2,))
    assert pair.received(*parts_of_weight(1)) == [4.0 / 2]
    for use in ("in_vocab", "batch", "batch"):
        assert Edge("wte weight", "wte", ((None,), (use,)), (2,)).received(F) == [0.0]
    for rest, rows in ((None, (E,)), ("in_vocab", (E, F))):
        assert Edge("wte weight", "wte weight", ((rest,), (None,)), (2,)).received(*rows) == [2.0]


@pytest.mark.parametrize(
    ("array", "count", "top"), [((8,), 8, 2), ((2, 4), 8, 2), ((2, 2), 8, 2), ((2, 4), 16, 4)]
)
def test_experts_get_pairs_of_token_and_expert(array: tuple[int, ...], count: int, top: int) -> None:
    """Every device has a token of each choice of experts, and sends a copy of it to each of them."""
    edge = Edge("dispatch", "gate", (("batch",) * len(array), ("experts",) * len(array)), array)
    devices = [frozenset({one}) for one in product(*map(range, array))]
    pairs = [pair for own in combinations(range(count), top) for pair in product(devices, own)]
    sent = [entering(home, devices[expert * len(devices) // count]) for home, expert in pairs]
    assert edge.received(F) == edge.received(E) == pytest.approx(sum(sent) / len(sent))
    assert sum(edge.received(F)) == 1 - 1 / len(devices)
