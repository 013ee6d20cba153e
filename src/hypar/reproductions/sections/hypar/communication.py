"""HyPar's Figure 8: the bytes that move in a step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.reproductions.base import Section, beside, geometric_mean
from hypar.reproductions.sections.hypar.networks import NETWORKS, bars

if TYPE_CHECKING:
    from hypar.evaluation import Evaluation


def figure_8(ran: Evaluation) -> Section:
    """Communication."""
    moved = {
        strategy: {name: ran.base[name, strategy].communication_bytes / 1e9 for name in NETWORKS}
        for strategy in ran.strategies
    }
    means = {strategy: geometric_mean(values.values()) for strategy, values in moved.items()}
    published = {"sfc": {"mp": 0.723, "hypar": 0.681}, "mean": {"mp": 8.88, "hypar": 0.318}}
    rows = []
    for name in (*NETWORKS, "mean"):
        own = {
            strategy: means[strategy] if name == "mean" else moved[strategy][name]
            for strategy in ran.strategies
        }
        known = published.get(name, {})
        cells = [cell for key in ("mp", "hypar") for cell in _known(known.get(key), own[key])]
        rows.append((name, f"{own['dp']:.3f}", *cells))
    heads = ("mp published", "mp", "ratio", "HyPar published", "HyPar", "ratio")
    return Section(
        title="Figure 8: communication",
        text=(
            "GB that all devices receive in a step, the volume of the plan. No reading of the paper was found that gives"
            " its two numbers for SFC, and so none of its means: per device or in all, one way or both, with amounts"
            " between layers or without. The amounts of its Tables 1 and 2, which these bytes are sums of, are reproduced"
            " to the digit."
        ),
        heads=("network", "dp", *heads),
        rows=tuple(rows),
        figure=bars("Communication", "GB a step", {name: moved[name] for name in ran.strategies}, log=True),
    )


def _known(published: float | None, ours: float) -> tuple[str, str, str]:
    """A published number where there is one, ours, and the ratio."""
    return ("", f"{ours:.3f}", "") if published is None else beside(published, ours, 3)
