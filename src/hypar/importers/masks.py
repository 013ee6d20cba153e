"""Masks of attention: constants of a network, of which only those of causal attention matter."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hypar.importers.trace import Node, Trace

TRIANGLES = frozenset({"tril", "triu", "trilu"})
COMPARISONS = frozenset({"le", "lt", "ge", "gt", "less", "lessorequal", "greater", "greaterorequal"})


def causal(trace: Trace, node: Node, operand: str = "") -> bool:
    """Return whether an operation has an operand that depends on a comparison of positions with each other.

    A square constant that no operation makes is taken for a causal mask as well.

    Args:
        trace: the network.
        node: the operation.
        operand: the only operand to look at, if not all.
    """
    waiting = [*(node.operands.get(operand, ()) if operand else node.read)]
    seen: set[str] = set()
    while waiting:
        value = waiting.pop()
        if value in seen or value in trace.dependent:
            continue
        seen.add(value)
        maker, sizes = trace.makers.get(value), trace.shapes.get(value, ())
        square = len(sizes) > 1 and sizes[-1] == sizes[-2] > 1
        kind = maker.kind.lower() if maker else ""
        if square and (maker is None or kind in TRIANGLES or (kind in COMPARISONS and len(maker.read) > 1)):
            return value not in trace.parameters and value not in trace.whole
        waiting += maker.read if maker else ()
    return False
