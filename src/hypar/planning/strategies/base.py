"""The definition of a strategy."""

from __future__ import annotations

from typing import NamedTuple

from hypar.registry import load_plugin
from hypar.sharding.conventions import MOVED


class Strategy(NamedTuple):
    """A space, a cost and a search under one name; each can be overridden separately.

    It has a line that describes it, and its publication as ``source``; a ``space`` as ``hypar.sharding.space`` reads it;
    names of the cost, of the ``heterogeneous_cost`` if that of a heterogeneous machine differs, and of the search; the
    graph, ``contracted``, or ``operators`` to plan pools too; the rule for the ``shares`` of device groups; and the
    ``convention`` by which its cost counts, that of its paper, if it has one. A paper may divide dims ``beyond`` their elements.
    Weights rest by a stage of ``zero``; None where the search chooses how a step trains.
    """

    summary: str
    source: str
    space: str
    cost: str = "volume"
    search: str = "greedy"
    graph: str = "contracted"
    heterogeneous_cost: str | None = None
    shares: str = "equal"
    convention: str = MOVED
    beyond: bool = False
    zero: int | None = 0


def load_strategy(name: str) -> Strategy:
    """Load the strategy of a name; raises ``UnknownNameError`` if there is no such strategy."""
    strategy: Strategy = load_plugin("strategies", name)
    return strategy
