"""Plans for the ways in which DeePa's evaluation cuts its networks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hypar.planning.planner import plan_model
from hypar.sharding.conventions import PAPER
from hypar.studies.read_memory import read_memory
from hypar.studies.sections.deepa.counting import count_bytes
from hypar.studies.sections.deepa.networks import ALEXNET

if TYPE_CHECKING:
    from hypar.machine.machine import Machine
    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan
    from hypar.plan.score import Score
    from hypar.studies.sections.deepa.counting import Bytes

WAYS = 16
MACHINE = "p100-4x4"
SPACE = "batch*out_channels*height*width"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A way to cut a network.

    Attributes:
        name: its name in tables.
        space: the choices of each layer.
        mode: the mode of the cost ``deepa``.
        pins: fixed choices.
    """

    name: str
    space: str = SPACE
    mode: str = "exact"
    pins: tuple[str, ...] = ()


IMAGE = Cut(name="image", space="batch")
OWT = Cut(name="owt", space="conv:batch linear:out_channels")
SERIAL = Cut(name="deepa, serial", mode="serial")
EXACT = Cut(name="deepa, exact")
ALONE = Cut(name="one device", pins=("*=batch1",))

LINEAR_ON_TWO = ("*=n16", "fc*=c2")
PUBLISHED = {
    ALEXNET: Cut(name="deepa, published", pins=LINEAR_ON_TWO),
    "vgg16": Cut(name="deepa, published", pins=(*LINEAR_ON_TWO, "conv5_*=n1 h2 w2")),
}
"""Configurations on 16 devices that sections 7.1.2 and 7.1.3 state in words; Inception-v3's is only drawn."""


@dataclass(slots=True)
class Plans:
    """Plans for a machine, each made once.

    Attributes:
        machine: the machine of the plans.
    """

    machine: Machine
    _known: dict[tuple[str, str, int, Cut, int], Plan] = field(default_factory=dict, repr=False)

    def of(self, graph: LayerGraph, cut: Cut, ways: int = WAYS) -> Plan:
        """Return the plan of a network on one level; a level of two with one at work stands for one device."""
        asked = ALONE if ways == 1 else cut
        key = (graph.name, graph.digest, graph.batch, asked, ways)
        if key not in self._known:
            self._known[key] = plan_model(
                graph, array=[max(ways, 2)], strategy="deepa", space=asked.space, mode=asked.mode,
                pins=asked.pins, hardware=self.machine, convention=PAPER,
            )  # fmt: skip
        return self._known[key]

    def score(self, graph: LayerGraph, cut: Cut, ways: int = WAYS) -> Score:
        """Return the engine's score of such a plan."""
        score = self.of(graph, cut, ways).score
        assert score is not None  # noqa: S101 (a machine was named, so there is one)
        return score

    def speed(self, graph: LayerGraph, cut: Cut, ways: int = WAYS) -> float:
        """Return the images a second of such a plan by the engine."""
        return graph.batch / self.score(graph, cut, ways).time_s

    def held_bytes(self, graph: LayerGraph, cut: Cut, ways: int = WAYS) -> float:
        """Return the memory of a device under such a plan, of activations what weighted layers read."""
        plan, nodes = self.of(graph, cut, ways), graph.nodes(self.of(graph, cut, ways).graph)
        choices = [plan.choices(layer.name) for layer in nodes.layers]
        memory_bytes = self.score(graph, cut, ways).memory_bytes
        return read_memory(memory_bytes, nodes, choices, graph.element_bytes)

    def bytes_of(self, graph: LayerGraph, cut: Cut, ways: int = WAYS) -> Bytes:
        """Return the bytes that such a plan moves."""
        return count_bytes(self.of(graph, cut, ways), graph, self.machine)
