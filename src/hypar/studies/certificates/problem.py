"""The volume of a plan by counts, from the network alone: what is added up inside layers, and what two layers share.

With k ways at each of L levels and n(d) levels that cut a layer in dim d, k**n devices have each element of a tensor, n being the levels
whose dim the tensor does not have. Adding up terms moves 2 A (k**n - 1) elements. A tensor between two layers moves
A (need - both) forward and A (have - both) back; ``both`` is k**s at most, by theorem 2 of ``docs/optimal.md``.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.errors import OptionError
from hypar.sharding.dims import SPATIAL
from hypar.sharding.numbering import digits_of
from hypar.sharding.space import parse_space

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from hypar.network.contraction import ContractedGraph, CutLayer, Tensor
    from hypar.network.einsum import Einsum
    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan

    Counts = NDArray[np.int64]
    Table = NDArray[np.float64]

BATCH = "batch"
BETWEEN = ("batch", "channels", "height", "width")
"""The dims of a tensor between two layers."""

MOST_STATES = 2000
"""Most states of a layer."""

Word = str | None


class Inside(NamedTuple):
    """Partial sums of one tensor that are added up inside a layer: bytes, and whether each option leaves terms."""

    num_bytes: float
    terms: tuple[int, ...]


class Between(NamedTuple):
    """A tensor between two layers.

    Attributes:
        ends: the producer and the consumer.
        forward: bytes of F.
        back: bytes of E; 0 if none is sent.
        words: for each end the dim of the tensor that each of its options divides; None where all devices have all of it.
    """

    ends: tuple[int, int]
    forward: float
    back: float
    words: tuple[tuple[Word, ...], tuple[Word, ...]]


class Problem(NamedTuple):
    """A network under a request, as a problem of counts.

    Attributes:
        names: the layers.
        ways: the ways of each level.
        levels: the number of levels.
        options: for each layer the dims that it may divide; None for none.
        inside: for each layer its partial sums.
        links: for each pair of layers the tensors between them.
    """

    names: tuple[str, ...]
    ways: int
    levels: int
    options: tuple[tuple[Word, ...], ...]
    inside: tuple[tuple[Inside, ...], ...]
    links: dict[tuple[int, int], tuple[Between, ...]]

    def states(self, layer: int) -> Counts:
        """Return how often each dim may be taken, in the order of the options, the first option most often first."""
        return _states(self.levels, len(self.options[layer]))

    def costs(self, layer: int, states: Counts) -> Table:
        """Return the bytes inside a layer in some states."""
        total = np.zeros(len(states))
        for num_bytes, terms in self.inside[layer]:
            total += 2 * num_bytes * (float(self.ways) ** (states @ np.array(terms)) - 1)
        return total

    def shared(self, pair: tuple[int, int], states: tuple[Counts, Counts]) -> Table:
        """Return the least bytes between two layers for each pair of their states, in the order of the pair.

        Args:
            pair: the layers.
            states: their states, ``[states, options]``; or ``[states, cells, options]``, where levels of both in one cell meet.
        """
        ends = tuple(own.reshape(len(own), -1, own.shape[-1]) for own in states)
        total = np.zeros((len(ends[0]), len(ends[1])))
        for tensor in self.links[pair]:
            turned = tensor.ends != pair
            made, read = (
                _by_word(*own) for own in zip(tensor.words, ends[::-1] if turned else ends, strict=True)
            )
            copies = made[None].sum(axis=1)[:, None], read[None].sum(axis=1)[None]
            both = copies[0] + copies[1] - self.levels
            for word in (made.keys() & read.keys()) - {None}:
                for cell in range(made[word].shape[1]):
                    both = both + np.minimum(made[word][:, None, cell], read[word][None, :, cell])
            have, need, common = (float(self.ways) ** own for own in (*copies, both))
            moved = tensor.forward * (need - common) + tensor.back * (have - common)
            total += moved.T if turned else moved
        return total

    def cost(self, orders: Sequence[Sequence[Word]]) -> float:
        """Return the bytes of a plan: for each layer the dim that each level divides."""
        found = []
        for layer, own in enumerate(orders):
            counts = np.array([[own.count(dim) for dim in self.options[layer]]])
            found.append(float(self.costs(layer, counts)[0]))
        for tensors in self.links.values():
            for tensor in tensors:
                made, read = (
                    [words[self.options[end].index(dim)] for dim in orders[end]]
                    for end, words in zip(tensor.ends, tensor.words, strict=True)
                )
                s = sum(
                    (u is None) + (v is None) + (u == v is not None) - 1
                    for u, v in zip(made, read, strict=True)
                )
                have, need, both = (
                    float(self.ways) ** power for power in (made.count(None), read.count(None), s)
                )
                found.append(tensor.forward * (need - both) + tensor.back * (have - both))
        return math.fsum(found)


@lru_cache(maxsize=64)
def _states(levels: int, options: int) -> Counts:
    return np.array([*_parts(levels, options)])


def _parts(levels: int, options: int) -> Iterator[tuple[int, ...]]:
    """Yield the ways to write the number of levels as a sum."""
    if options == 1:
        yield (levels,)
        return
    for first in range(levels, -1, -1):
        for rest in _parts(levels - first, options - 1):
            yield (first, *rest)


def _by_word(words: Sequence[Word], states: Counts) -> dict[Word, Counts]:
    """Return how often the states divide each dim of a tensor, and how often none, ``[states, cells]``."""
    found: dict[Word, Counts] = {None: np.zeros(states.shape[:2], np.int64)}
    for column, word in enumerate(words):
        found[word] = found.get(word, 0) + states[:, :, column]
    return found


def problem_of(plan: Plan, graph: LayerGraph) -> Problem:
    """Return the problem of a plan's request.

    Raises:
        OptionError: certificates are not for such plans.
    """
    _require_counted(plan)
    ways, levels = _levels_of(plan)
    nodes = graph.nodes(plan.graph)
    if nodes.ties:
        raise _refused("found a weight that several layers use", "layers with weights of their own")
    options = tuple(_options(plan, layer, ways) for layer in nodes.layers)
    most = max(math.comb(levels + len(own) - 1, levels) for own in options)
    if most > MOST_STATES:
        raise _refused(f"found {most:,} states of a layer", f"at most {MOST_STATES:,}, so fewer levels")
    weight = float(plan.cost.parameters.get("inter_weight", 1.0))
    size = float(graph.element_bytes)
    fed, tensors = _tensors(nodes, options, size * weight)
    links: dict[tuple[int, int], list[Between]] = {}
    for tensor in tensors:
        links.setdefault((min(tensor.ends), max(tensor.ends)), []).append(tensor)
    return Problem(
        names=tuple(layer.name for layer in nodes.layers),
        ways=ways,
        levels=levels,
        options=options,
        inside=tuple(
            _inside(layer.einsum, own, size, fed=at in fed)
            for at, (layer, own) in enumerate(zip(nodes.layers, options, strict=True))
        ),
        links={pair: tuple(own) for pair, own in links.items()},
    )


def orders_of(plan: Plan) -> list[list[Word]]:
    """Return for each layer of a plan the dim that each level, or each digit of a flat level, divides.

    Raises:
        OptionError: the plan divides several dims at once, or height or width.
    """
    array, chosen = tuple(plan.array), tuple(plan.choices(layer) for layer in plan.layers)
    digits = digits_of(array, chosen)
    inner, own = (array, chosen) if digits is None else (digits.array, digits.chosen)
    ways = _levels_of(plan)[0]
    found = []
    for layer, choices in zip(plan.layers, own, strict=True):
        order: list[Word] = []
        for choice, level in zip(choices, inner, strict=True):
            if len(choice.divided) > 1 or choice.devices(level) != level or {*choice.divided} & {*SPATIAL}:
                cut = f"{layer!r} is cut in {', '.join(choice.divided)}"
                raise _refused(f"found {cut}", "one dim a level, and neither height nor width")
            order += [*(choice.divided or (None,))] * round(math.log(level, ways))
        found.append(order)
    return found


def _refused(found: str, allowed: str) -> OptionError:
    return OptionError("certificate", found, allowed)


def _require_counted(plan: Plan) -> None:
    if plan.cost.name != "volume" or plan.convention != "moved":
        found = f"found {plan.cost.name}, counted by {plan.convention or 'paper'}"
        raise _refused(found, "plans of least volume, counted by moved")
    if plan.heterogeneous or plan.stages is not None or plan.pins or plan.refined is not None:
        raise _refused("found stages, pins, refinement or unequal devices", "plans without any of them")


def _levels_of(plan: Plan) -> tuple[int, int]:
    """Return the ways and the number of levels, or of the digits of a flat level."""
    if len({*plan.array}) > 1:
        raise _refused(f"found an array of {'x'.join(map(str, plan.array))}", "levels of equal ways")
    ways, levels = plan.array[0], len(plan.array)
    if levels == 1 and parse_space(plan.space).grids:
        prime = next(factor for factor in range(2, ways + 1) if ways % factor == 0)
        levels = round(math.log(ways, prime))
        if prime**levels != ways:
            raise _refused(f"found one level of {ways} ways", "a power of one prime")
        ways = prime
    return ways, levels


def _options(plan: Plan, layer: CutLayer, ways: int) -> tuple[Word, ...]:
    """Return the dims that a layer may divide at a level; the batch takes the place of height and width (theorem 3)."""
    found: dict[Word, None] = {}
    for choice in parse_space(plan.space, None).choices(layer, ways):
        if len(choice.divided) > 1:
            raise _refused(
                f"found grids in levels of {ways} ways", "one dim a level, or one flat level with numberings"
            )
        found |= dict.fromkeys(choice.divided or (None,))
    spatial = {*SPATIAL} & {*found}
    if spatial and BATCH not in found:
        raise _refused(f"found the space {plan.space!r}", "the batch beside height and width")
    return tuple(dim for dim in found if dim not in spatial)


def _inside(einsum: Einsum, options: Sequence[Word], size: float, *, fed: bool) -> tuple[Inside, ...]:
    """Return the partial sums of a layer: all its tensors', but of E_in only where something before it is trained."""
    if not einsum.weight:
        return ()
    elements: dict[str, float] = {"weight": einsum.elements("weight"), "output": einsum.elements("output")}
    if fed:
        elements["input"] = einsum.input_elements * _read(einsum)
    return tuple(
        Inside(count * size, tuple(int(dim not in einsum.dims(tensor)) for dim in options))
        for tensor, count in elements.items()
    )


def _tensors(
    nodes: ContractedGraph, options: Sequence[Sequence[Word]], size: float
) -> tuple[set[int], list[Between]]:
    """Return the layers before which something is trained, and the tensors between layers."""
    fed: set[int] = set()
    found = []
    for tensor in sorted(nodes.tensors, key=lambda one: one.consumer):
        made, read = nodes.layers[tensor.producer], nodes.layers[tensor.consumer]
        error = made.weighted or tensor.producer in fed
        if error:
            fed.add(tensor.consumer)
        num_bytes = tensor.elements * _read(read.einsum) * size
        words = (
            _words(options[tensor.producer], made.einsum.output, tensor),
            _words(options[tensor.consumer], read.einsum.input, tensor),
        )
        ends = (tensor.producer, tensor.consumer)
        found.append(Between(ends, num_bytes, num_bytes if error else 0.0, words))
    return fed, found


def _words(options: Sequence[Word], carried: Mapping[str, str], tensor: Tensor) -> tuple[Word, ...]:
    """Return the dim of a tensor that each option of one end divides."""
    has = {BATCH, *(dim for dim, _ in tensor.content.shape)} - tensor.content.contracted
    found = []
    for dim in options:
        word = carried.get(dim or "")
        if word in tensor.content.contracted or (word is not None and word not in BETWEEN):
            raise _refused(
                f"found {dim} of a tensor between two layers",
                f"{', '.join(BETWEEN)}, where both layers divide them",
            )
        found.append(word if word in has else None)
    return tuple(found)


def _read(einsum: Einsum) -> float:
    """Return the fraction of F_in that the windows of a layer read, if they leave gaps."""
    found = 1.0
    for dim, window in einsum.windows.items():
        size = einsum.input_sizes[dim]
        if window.gaps and size:
            starts = (at * window.stride - window.padding for at in range(einsum.sizes[dim]))
            rows = {row for start in starts for row in range(max(0, start), min(start + window.extent, size))}
            found *= len(rows) / size
    return found
