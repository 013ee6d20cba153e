"""What a strategy is."""

from __future__ import annotations

from dataclasses import dataclass

from hypar.registry import load_plugin


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """A space, a cost and a search under a name; each can be overridden by itself.

    Attributes:
        summary: what it does, in a line.
        source: where it is published.
        space: the choices, as ``hypar.sharding.space`` reads them.
        cost: name of the cost that is minimised.
        search: name of the search.
        graph: ``contracted``, or ``operators`` to plan pools too.
        fork_cost: name of the cost on a mixed machine, if another.
        shares: how the shares of a mixed machine's forks are found.
    """

    summary: str
    source: str
    space: str
    cost: str = "volume"
    search: str = "greedy"
    graph: str = "contracted"
    fork_cost: str | None = None
    shares: str = "equal"


def load_strategy(name: str) -> Strategy:
    """The strategy of a name.

    Raises:
        UnknownNameError: there is none.
    """
    strategy: Strategy = load_plugin("strategies", name)
    return strategy
