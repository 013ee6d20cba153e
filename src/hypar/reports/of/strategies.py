"""Documents of strategies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypar.document import Column, Document, Table
from hypar.planning.counting import follows
from hypar.sharding.conventions import DIRECT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.planning.strategies.base import Strategy

_SHOWN = (
    Column(key="strategy"),
    Column(key="space", prose=True),
    Column(key="cost"),
    Column(key="counts", head="counts by"),
    Column(key="search"),
    Column(key="summary", prose=True),
)


def strategies_data(named: Mapping[str, Strategy]) -> list[dict[str, Any]]:
    """Return the components of each strategy."""
    keys = {"heterogeneous_cost": "fork_cost"}  # which programs read under its former name
    parts = {name: strategy._asdict().items() for name, strategy in named.items()}
    return [{"strategy": name, **{keys.get(key, key): own for key, own in of}} for name, of in parts.items()]


def strategies_document(named: Mapping[str, Strategy]) -> Document:
    """Return one row for each strategy."""
    rows = [{"strategy": name, "counts": _counts(own), **own._asdict()} for name, own in named.items()]
    return Document(title="", parts=(Table(_SHOWN, rows),))


def _counts(strategy: Strategy) -> str:
    return strategy.convention if follows(strategy.cost) else DIRECT


plugin = strategies_document
