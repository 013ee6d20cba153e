"""HyPar's Figure 8: the bytes that move in a step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.planning.counting import bytes_received
from hypar.sharding.conventions import FUSED, MOVED
from hypar.studies.page import Section, beside, geometric_mean
from hypar.studies.sections.hypar.networks import GIGABYTES, LARGE, NETWORKS, bars

if TYPE_CHECKING:
    from hypar.studies.evaluation import Evaluation


def figure_8(ran: Evaluation) -> Section:
    """Compare the communication of the ten networks."""
    moved = {
        strategy: {name: ran.base[name, strategy].communication_bytes / 1e9 for name in NETWORKS}
        for strategy in ran.strategies
    }
    means = {strategy: geometric_mean(values.values()) for strategy, values in moved.items()}
    executed = {
        (strategy, convention): _executed(ran, strategy, convention)
        for strategy in ("mp", "hypar")
        for convention in (MOVED, FUSED)
    }
    rows = []
    for name in (*NETWORKS, "mean"):
        own = {
            strategy: means[strategy] if name == "mean" else moved[strategy][name]
            for strategy in ran.strategies
        }
        cells = [cell for key in ("mp", "hypar") for cell in _known(GIGABYTES.get((name, key)), own[key])]
        others = [
            geometric_mean(values.values()) if name == "mean" else values[name]
            for values in executed.values()
        ]
        rows.append((name, f"{own['dp']:.3f}", *cells, *(f"{other:.3f}" for other in others)))
    over = {
        (more, less): [moved[more][name] / moved[less][name] for name in LARGE]
        for more, less in (("mp", "dp"), ("dp", "hypar"))
    }
    heads = ("mp published", "mp", "ratio", "HyPar published", "HyPar", "ratio")
    conventions = ("mp moved", "mp fused", "HyPar moved", "HyPar fused")
    return Section(
        title="Figure 8: communication",
        text=(
            "GB that all devices receive in a step, the volume of the plan, a sum of the amounts of the paper's Tables 1"
            " and 2, which are reproduced to the digit. So counted, per device or in all, one way or both, with amounts"
            " between layers or without, neither of the paper's two numbers for SFC comes out; the next section has a"
            " reading that gives one. The paper names three means and prints two numbers; they are taken as those of mp and"
            " HyPar. It says that on the six large networks dp moves almost ten times less than mp and HyPar another ten"
            f" times less than dp: here {_span(over['mp', 'dp'])} and {_span(over['dp', 'hypar'])} times less."
            " The last four columns are what a correct execution of the same plans moves, by the two"
            " [conventions](../algebra.md#conventions) that count that: moved, where every sum is handed to all devices at"
            " once, and fused, where a sum goes straight to the shards that are read next. The paper's tables count too"
            " little where a tensor is whole inside a group and an outer level brings new parts of it, and where a pool"
            " reduces partial sums; dp moves the same by all three. Fused, HyPar moves"
            f" {executed['hypar', FUSED]['sfc']:.3f} GB on SFC, published as {GIGABYTES['sfc', 'hypar']}."
        ),
        heads=("network", "dp", *heads, *conventions),
        rows=tuple(rows),
        figure=bars("Communication", "GB a step", {name: moved[name] for name in ran.strategies}, log=True),
    )


def _executed(ran: Evaluation, strategy: str, convention: str) -> dict[str, float]:
    """Return the gigabytes of each network's plan counted by a convention."""
    return {
        name: bytes_received(ran.plans[name, strategy], ran.graphs[name], convention) / 1e9
        for name in NETWORKS
    }


def _known(published: float | None, ours: float) -> tuple[str, str, str]:
    return ("", f"{ours:.3f}", "") if published is None else beside(published, ours, 3)


def _span(ratios: list[float]) -> str:
    return f"{min(ratios):.1f} to {max(ratios):.1f}"
