"""The alternatives of every layer of a plan, as far as the explanation of plans reaches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypar.errors import InputError, OptionError, TableLimitError
from hypar.studies.explain import explain_plan

if TYPE_CHECKING:
    from hypar.machine.heterogeneous import HeterogeneousMachine
    from hypar.machine.machine import Machine
    from hypar.machine.profiles import Profile
    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan
    from hypar.studies.explain import Alternative, LayerExplanation


@dataclass(frozen=True, slots=True, kw_only=True)
class Margin:
    """The distance of one choice of a layer from the next.

    Attributes:
        explained: the layer at one level, with its alternatives.
        next: the cheapest alternative; None if it has no other.
        more: what the level costs more with it; with neighbours as planned, what the layer costs more.
        anew: whether all other layers are planned anew.
    """

    explained: LayerExplanation
    next: Alternative | None
    more: float
    anew: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """The reasons for a plan.

    Attributes:
        margins: each layer at each level, in the plan's order; empty if it is not explained.
        refused: why it is not explained; empty if it is.
    """

    margins: tuple[Margin, ...] = ()
    refused: str = ""

    def of(self, layer: str) -> tuple[Margin, ...]:
        """Return the margins of a layer, the outermost level first."""
        return tuple(margin for margin in self.margins if margin.explained.layer == layer)

    @property
    def closest(self) -> tuple[Margin, ...]:
        """Return the choices that have alternatives, the smallest margin first, then those not planned anew."""
        found = (margin for margin in self.margins if margin.next is not None)
        return tuple(sorted(found, key=lambda margin: (not margin.anew, margin.more)))


def why_of(
    plan: Plan,
    graph: LayerGraph,
    machine: Machine | HeterogeneousMachine | None,
    profile: Profile | None = None,
) -> Why:
    """Cost the alternatives of every layer."""
    try:
        found = explain_plan(plan, graph, layer="*", machine=machine, profile=profile)
    except OptionError as error:
        return Why(refused=error.found)
    except (InputError, TableLimitError) as error:
        return Why(refused=str(error))
    by_layer = {name: number for number, name in enumerate(plan.layers)}
    # The groups of a heterogeneous machine stay in order, each with its levels.
    ordered = sorted(found.explained, key=lambda one: by_layer[one.layer])
    return Why(margins=tuple(map(_margin, ordered)))


def _margin(explained: LayerExplanation) -> Margin:
    others = [each for each in explained.alternatives if not each.chosen]
    known = [each for each in others if each.replanned is not None]
    if not others:
        return Margin(explained=explained, next=None, more=0.0, anew=False)
    if known:
        nearest = min(known, key=lambda each: each.replanned or 0.0)
        return Margin(explained=explained, next=nearest, more=nearest.replanned or 0.0, anew=True)
    return Margin(
        explained=explained, next=others[0], more=others[0].total - explained.chosen.total, anew=False
    )
