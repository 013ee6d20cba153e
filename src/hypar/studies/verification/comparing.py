"""The comparison of a plan's own count with that of its program, transfer by transfer and level by level."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hypar.program.of_plan import cuts_of
from hypar.program.steps import Item
from hypar.sharding.conventions import FUSED, MOVED
from hypar.studies.verification.cases import Facts, Place
from hypar.studies.verification.planned import Amounts, by_products, seam
from hypar.studies.verification.result import Difference

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from hypar.network.graph import LayerGraph
    from hypar.studies.verification.asked import Asked

ROUNDING = 1e-6
"""Relative difference of two amounts, and difference in bytes, that counts as rounding."""

PHASES = ("forward", "backward", "gradient")


class Comparison:
    """The counts of a plan and of its program, of one network.

    Attributes:
        asked: what is verified.
        graph: the network that is counted.
        levels: the names of the levels.
    """

    def __init__(self, asked: Asked, graph: LayerGraph, levels: Sequence[str]) -> None:
        """Store them."""
        self.asked, self.graph, self.levels = asked, graph, levels
        self.places = {layer.name: number for number, layer in enumerate(graph.layers)}

    def counted(self, counts: Sequence[tuple[Item, NDArray[np.int64]]]) -> Amounts:
        """Return the bytes of a program's transfers by the names that the plan's count has for them."""
        found: Amounts = {}
        names = PlannedNames(self.graph, {*self.asked.plan.layers})
        for item, own in counts:
            key = names.of(item)
            found[key] = found.get(key, np.zeros(len(own))) + own * float(self.graph.element_bytes)
        return {item: own for item, own in found.items() if own.any()}

    def differences(self, planned: Amounts, counted: Amounts) -> tuple[Difference, ...]:
        """Return the transfers and levels at which two counts differ, with their cases."""
        planned, counted = (self._with_seams(each) for each in (planned, counted))
        found = sorted({*planned, *counted}, key=self._order)
        facts, products = self._facts(), self._products()
        return tuple(
            Difference(
                item=place.item,
                level=self.levels[place.level],
                planned=float(before),
                counted=int(after),
                case=facts.case(place),
            )
            for item in found
            for place, before, after in self._places(item, planned, counted, products)
        )

    def _places(
        self, item: Item, planned: Amounts, counted: Amounts, products: Amounts | None
    ) -> Iterator[tuple[Place, float, float]]:
        """Yield the levels at which the counts of a transfer differ, with both."""
        nothing = np.zeros(len(self.levels))
        both = planned.get(item, nothing), counted.get(item, nothing)
        there = None if products is None else products.get(item, nothing)
        for level, (before, after) in enumerate(zip(*both, strict=True)):
            if not _equal(before, after):
                in_products = None if there is None else _equal(there[level], after)
                place = Place(item=item, level=level, more=bool(after > before), in_products=in_products)
                yield place, before, after

    def _facts(self) -> Facts:
        plan = self.asked.plan
        return Facts(
            graph=self.graph,
            planned_graph=self.graph.nodes(plan.graph),
            cuts=cuts_of(plan)[1],
            planned=self.asked.planned_by,
            run=self.asked.run_by,
            seam=(plan.stages.outside or 0) if plan.stages is not None and plan.staged else None,
        )

    def _products(self) -> Amounts | None:
        """Return what products over levels count by the program's convention; None where there are none."""
        plan, asked = self.asked.plan, self.asked
        if plan.heterogeneous or not plan.array or asked.run_by not in {MOVED, FUSED}:
            return None
        inside = by_products(plan, self.graph, asked.run_by)
        # Inside a stage tensors move as without stages.
        if plan.stages is None or not plan.staged:
            return inside
        return {item: np.insert(own, plan.stages.outside or 0, 0.0) for item, own in inside.items()}

    def _with_seams(self, amounts: Amounts) -> Amounts:
        """Return amounts in which everything that a stage receives from others in a phase is one item."""
        plan = self.asked.plan
        if plan.stages is None or not plan.staged:
            return amounts
        outside = plan.stages.outside or 0
        stage_of = {name: number for number, stage in enumerate(plan.stages.stages) for name in stage.layers}
        found: Amounts = {}
        for item, own in amounts.items():
            end = item.maker if item.phase == "backward" and item.maker in stage_of else item.layer
            within = own.copy()
            if end in stage_of and within[outside]:
                key = seam(stage_of[end], item.phase)
                found.setdefault(key, np.zeros(len(own)))[outside] += within[outside]
                within[outside] = 0
            found[item] = found.get(item, np.zeros(len(own))) + within
        return found

    def _order(self, item: Item) -> tuple[int, int, str, str, str]:
        """Return the order of transfers: by phase, then by layer."""
        place = self.places.get(item.layer, len(self.places))
        return PHASES.index(item.phase), place, item.layer, item.tensor, item.maker or ""


def _equal(one: float, other: float) -> bool:
    return bool(np.isclose(one, other, rtol=ROUNDING, atol=ROUNDING))


class PlannedNames:
    """The names that a plan's count has for the transfers of a program: those of the layers that are cut."""

    def __init__(self, graph: LayerGraph, planned_layers: set[str]) -> None:
        """Find the planned layer whose output each layer passes on, and the first one that reads each output."""
        self.sources: dict[str, str] = {}
        self.readers: dict[str, str] = {}
        self.sums: set[str] = set()
        for layer in graph.layers:
            passes = layer.name not in planned_layers and layer.inputs
            self.sources[layer.name] = self.sources[layer.inputs[0]] if passes else layer.name
            if passes and layer.op.contracts(layer.input_shapes):
                self.sums.add(layer.name)
        for layer in reversed(graph.layers):
            reader = layer.name if layer.name in planned_layers else self.readers.get(layer.name)
            if reader is not None:
                self.readers |= dict.fromkeys(layer.inputs, reader)

    def of(self, item: Item) -> Item:
        """Return the item as a plan counts it: sums of an op without choices belong to the tensor that it passes on."""
        if item.layer in self.sums and item.layer in self.readers and item[2:] == ("forward", "output"):
            return Item(self.readers[item.layer], self.sources[item.layer], "forward", "input")
        return item if item.maker is None else item._replace(maker=self.sources[item.maker])
