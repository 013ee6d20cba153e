"""The cases in which a plan's count and a correct execution differ, found from the cuts at both ends of a transfer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from hypar.program.cuts import scattered
from hypar.sharding.conventions import DIRECT, FUSED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hypar.network.contraction import ContractedGraph, CutLayer
    from hypar.network.graph import LayerGraph
    from hypar.network.layer import Layer
    from hypar.program.cuts import Cuts
    from hypar.program.steps import Item

REASONS = {
    "a": "a tensor is whole inside a group: every device there needs the parts that an outer level brings, not one",
    "b": "partial sums are added up before the ops behind the layer make the image smaller",
    "c": "two levels exchange parts of one tensor: each element is sent once, not forwarded",
    "d": "an error is sliced before it is sent, not gathered first",
    "e": "pieces are uneven, or do not line up with the rows that windows read: whole elements are sent",
    "f": "the stride is larger than the kernel: only elements that windows read are sent",
    "g": "behind a flatten the weights follow the pieces of the image, so less is exchanged",
    "h": "rows beside a border are exchanged with the sums and parts of another level",
    "i": "a join reads or makes tensors whose pieces lie in two orders",
    "j": "biases, statistics, and ops that the plan does not cut, which its cost leaves out",
    "k": "terms of an error go to an owner that has terms itself",
    "l": "no error is sent to the network's input, which the cost counts",
    "m": "sums go straight to the devices that read them next, which the cost does not count so",
    "n": "each layer of a stage gets what it reads, an element once; the cost counts a tensor once, but for every device",
    "o": "a weight that several layers use, counted for each, or with pieces in two orders",
    "?": "none of the known cases",
}
"""What each case means. The letters a to k are those of the algebra's page."""

EVEN = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A transfer at one level whose counts differ.

    Attributes:
        item: what it is for.
        level: the level.
        more: whether more is counted than was planned.
        in_products: whether products over the levels count as the program does; None where there are none.
    """

    item: Item
    level: int
    more: bool
    in_products: bool | None


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The facts of a program by which cases are told apart.

    Attributes:
        graph: the network.
        planned_graph: the planned layers.
        cuts: their cuts.
        planned: the convention of the plan's cost.
        run: the convention of the program.
        seam: the index of the stages among the levels; None without stages.
    """

    graph: LayerGraph
    planned_graph: ContractedGraph
    cuts: Mapping[str, Cuts]
    planned: str
    run: str
    seam: int | None

    @cached_property
    def nodes(self) -> Mapping[str, CutLayer]:
        """The planned layers by name."""
        return {layer.name: layer for layer in self.planned_graph.layers}

    @cached_property
    def layers(self) -> Mapping[str, Layer]:
        """All layers by name."""
        return {layer.name: layer for layer in self.graph.layers}

    @cached_property
    def fed(self) -> frozenset[str]:
        """The layers to which an error is sent back: those behind a trained one."""
        trained: set[str] = set()
        found = set()
        for layer in self.graph.layers:
            if any(name in trained for name in layer.inputs):
                found.add(layer.name)
            if layer.num_parameters or layer.name in found:
                trained.add(layer.name)
        return frozenset(found)

    def case(self, place: Place) -> str:
        """Return the letter of the first case whose facts hold."""
        return next(self._cases(place))

    def _cases(self, place: Place) -> Iterator[str]:
        item = place.item
        if place.level == self.seam:
            yield "o" if item.phase == "gradient" else "n"
        if item.tensor in {"bias", "statistics"} or item.layer not in self.nodes:
            yield "j"
            return
        if item[2:] == ("backward", "input") and item.layer not in self.fed:
            yield "l"
        if self.run == FUSED != self.planned and item.phase != "gradient":
            yield "m"
        yield from self._inside(place) if item.maker is None else self._between(place)
        yield "?"

    def _inside(self, place: Place) -> Iterator[str]:
        """Yield the cases of sums inside a layer."""
        item, node = place.item, self.nodes[place.item.layer]
        if item.tensor == "weight" and any(item.layer in {tie.user, tie.owner} for tie in self.graph.ties):
            yield "o"
        if item.tensor == "output" and node.einsum.elements("output") != node.output_elements:
            yield "b"
        if item.tensor == "input" and self._gaps(item.layer):
            yield "f"
        if self.planned == DIRECT and item.phase == "backward":
            yield "k"
        if self._uneven(item.layer) or (item.tensor == "output" and self._scattered_unevenly(item.layer)):
            yield "e"
        if item.tensor == "input" and self._halo(item.layer):
            yield "h" if len(self._divided_levels(item.layer)) > 1 else "e"
        if self.run == DIRECT != self.planned:
            yield "k"

    def _between(self, place: Place) -> Iterator[str]:
        """Yield the cases of a tensor between two layers."""
        item = place.item
        reader, maker = item.layer, item.maker or ""
        if maker not in self.nodes:
            yield "j"
            return
        if self._gaps(reader):
            yield "f"
        products = place.in_products
        if products and self._halo(reader):
            yield "h"
        if products:
            yield from self._of_levels(place)
        if self._uneven(reader) or self._uneven(maker):
            yield "e"
        if self._flattened(reader) and self.cuts[maker].divides("height", "width"):
            yield "g"
        if self._joins(reader) or self._joins(maker):
            yield "i"
        if self._halo(reader):
            yield "h" if len(self._divided_levels(reader)) > 1 else "e"
        if self._sent_directly(place):
            yield "k"
        yield from self._of_levels(place)

    def _sent_directly(self, place: Place) -> bool:
        """Return whether terms of an error are sent straight to those who need the sums."""
        return place.item.phase == "backward" and DIRECT in {self.run, self.planned}

    def _of_levels(self, place: Place) -> Iterator[str]:
        """Yield the case of a tensor that several levels change."""
        if place.more:
            yield "a"
        item = place.item
        made, read = self.cuts[item.maker or ""].levels, self.cuts[item.layer].levels
        outer = range(place.level + 1)
        sliced = any(made[level].bounds and not self._reads(read[level].bounds) for level in outer)
        yield "d" if item.phase == "backward" and sliced else "c"

    @staticmethod
    def _reads(bounds: Mapping[str, object]) -> bool:
        """Return whether a cut of a reader divides what it reads."""
        return any(dim != "out_channels" for dim in bounds)

    def _divided_levels(self, layer: str) -> list[int]:
        """Return the levels that divide a layer."""
        return [level for level, cut in enumerate(self.cuts[layer].levels) if cut.bounds]

    def _gaps(self, layer: str) -> bool:
        """Return whether windows leave out elements between them."""
        return any(window.gaps for window in self.nodes[layer].einsum.windows.values())

    def _halo(self, layer: str) -> bool:
        """Return whether a layer's image is cut and windows read across the borders."""
        windows = self.nodes[layer].einsum.windows
        return any(self.cuts[layer].divides(dim) for dim, window in windows.items() if window.halo)

    def _flattened(self, layer: str) -> bool:
        """Return whether an image becomes a vector in front of a layer."""
        read = self.layers[layer]
        while (read.inputs and read.name not in self.nodes) or read.name == layer:
            if read.op.view:
                return True
            read = self.layers[read.inputs[0]]
        return False

    def _joins(self, layer: str) -> bool:
        return self.nodes[layer].join

    def _uneven(self, layer: str) -> bool:
        """Return whether pieces of a layer are uneven, or its windows do not read equal shares of rows."""
        einsum, cuts = self.nodes[layer].einsum, self.cuts[layer]
        for dim, size in einsum.sizes.items():
            ways, rows = _ways(cuts, dim), einsum.input_sizes.get(dim, 0)
            if ways != 1 and (
                not _whole(size / ways)
                or (rows and (not _whole(rows / ways) or rows != size * einsum.windows[dim].stride))
            ):
                return True
        return False

    def _scattered_unevenly(self, layer: str) -> bool:
        """Return whether sums go straight to a reader, and both layers together divide a dim of them unevenly."""
        made = self.nodes[layer].einsum
        terms = frozenset(made.sizes) - {*made.output}
        for tensor in self.planned_graph.tensors if self.run == FUSED else ():
            maker, reader = self.planned_graph.ends(tensor)
            if maker.name == layer and self.cuts[layer].meets(self.cuts[reader.name]):
                names = made.output, reader.einsum.input
                cuts = scattered(self.cuts[layer], self.cuts[reader.name], names, terms)
                if not all(_whole(made.sizes[dim] / _ways(cuts, axis)) for dim, axis in made.output.items()):
                    return True
        return False


def _ways(cuts: Cuts, dim: str) -> float:
    """Return the number of pieces into which cuts divide a dim; NaN if they are unlike."""
    ways = 1.0
    for low, high in (cut.bounds[dim] for cut in cuts.levels if dim in cut.bounds):
        share = high - low
        ways *= 1.0 / float(share.max()) if share.max() - share.min() <= EVEN else np.nan
    return ways


def _whole(number: float) -> bool:
    return bool(np.isclose(number, np.round(number), rtol=0, atol=EVEN))
