"""The definition of a strategy."""

from __future__ import annotations

from typing import NamedTuple

from hypar.registry import load_plugin
from hypar.sharding.conventions import MOVED


class Strategy(NamedTuple):
    """A space, a cost and a search under one name; each can be overridden separately.

    Attributes:
        summary: a description in one line.
        source: the publication.
        space: the allowed choices, as ``hypar.sharding.space`` reads them.
        cost: name of the cost that is minimised.
        search: name of the search.
        graph: ``contracted``, or ``operators`` to plan pools too.
        heterogeneous_cost: name of the cost on a heterogeneous machine, if it differs.
        shares: the rule for the shares of device groups.
        convention: the convention by which its cost counts bytes; that of its paper, if it is named after one.
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


def load_strategy(name: str) -> Strategy:
    """Load the strategy of a name; raises ``UnknownNameError`` if there is no such strategy."""
    strategy: Strategy = load_plugin("strategies", name)
    return strategy
