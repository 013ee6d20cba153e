"""Count the plans of every model at four levels by each convention, as a table for docs/algebra.md.

Run it with names of models to count only those: python examples/conventions.py lenet-c alexnet
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import hypar
from hypar.activity import count
from hypar.reports.terminal import progress_bar
from hypar.studies.grid import costs_of

if TYPE_CHECKING:
    from hypar import LayerGraph, Plan

LEVELS = 4
HEADS = ("hypar", "moved", "accpar", "moved", "optimal", "moved", "least moved", "least fused")


def planned(graph: LayerGraph, strategy: str, convention: str) -> Plan:
    """Return a strategy's plan for the least bytes by a convention."""
    return hypar.plan_model(graph, levels=LEVELS, strategy=strategy, convention=convention)


def shown(value: float) -> str:
    """Return gigabytes, three digits after the point or four for little networks."""
    return f"{value / 1e9:.3f}" if value >= 1e8 else f"{value / 1e9:.4f}"


def least(plan: Plan) -> str:
    """Return a plan's own count, marked if it is not proven least."""
    proven = plan.bounds is None or plan.bounds[0] >= plan.cost.value
    return f"{'' if proven else '≤ '}{shown(plan.cost.value)}"


def row(name: str) -> list[str]:
    """Return the cells of a model."""
    graph = hypar.load_model(name)
    cells = [name]
    for strategy in ("hypar", "accpar", "optimal"):
        plan = planned(graph, strategy, "paper")
        cells += [shown(plan.cost.value), shown(sum(costs_of(plan, graph, "moved", None)))]
    return [*cells, *(least(planned(graph, "optimal", convention)) for convention in ("moved", "fused"))]


def main(names: list[str]) -> None:
    """Print the table; stderr says how far it is meanwhile."""
    rows: list[list[str]] = []
    with progress_bar("counting"):
        for name in names:
            count(len(rows), len(names))
            rows.append(row(name))
    print(f"| model | {' | '.join(HEADS)} |")
    print(f"|---|{'--:|' * len(HEADS)}")
    for cells in rows:
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main(sys.argv[1:] or list(hypar.models()))
