"""Two readings of AccPar's three published averages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.studies.page import Section
from hypar.studies.sections.accpar.runs import MEANS, NETWORKS, PUBLISHED

if TYPE_CHECKING:
    from hypar.studies.sections.accpar.runs import Runs

SUMMARY = {"owt": 2.98, "hypar": 3.78, "dp": 6.30}
"""The published speedups of accpar over other strategies, as in the summary."""


def averages(runs: Runs) -> Section:
    """Compare both readings of the three averages with ours."""
    taken = {(own, "dp"): number for own, number in PUBLISHED.items()}
    taken |= {("accpar", own): PUBLISHED["accpar"] / PUBLISHED[own] for own in ("owt", "hypar")}
    taken["hypar", "owt"] = PUBLISHED["hypar"] / PUBLISHED["owt"]
    literal = {("accpar", own): number for own, number in SUMMARY.items()}
    literal |= {(own, "dp"): SUMMARY["dp"] / SUMMARY[own] for own in ("owt", "hypar")}
    literal["hypar", "owt"] = SUMMARY["owt"] / SUMMARY["hypar"]
    over: dict[tuple[str, str], dict[str, float]] = {}
    for fast, slow in taken:
        base = runs.speeds.get(slow, dict.fromkeys(NETWORKS, 1.0))
        over[fast, slow] = {name: runs.speeds[fast][name] / base[name] for name in NETWORKS}
    behind = [name for name in NETWORKS if over["hypar", "owt"][name] < 1]
    rows = tuple(
        (f"{fast} over {slow}", f"{literal[fast, slow]:.2f}", f"{number:.2f}",
         *(f"{mean(over[fast, slow]):.2f}" for mean in MEANS.values()))
        for (fast, slow), number in taken.items()
    )  # fmt: skip
    return Section(
        title="Averages: what the published ones are over",
        text=(
            f"The summary says that AccPar is {SUMMARY['owt']}, {SUMMARY['hypar']} and {SUMMARY['dp']:.2f} times faster than"
            " OWT, HyPar and data parallelism, in turn. This page deviates: it takes the three for OWT, HyPar and AccPar over"
            f" dp. As the summary has it HyPar would be {literal['hypar', 'owt']:.2f} times as fast as OWT, slower, while the"
            " same summary says that HyPar does better than OWT, and HyPar's own paper that it is 1.62 times faster on single"
            " layers. As taken here the three grow with what each may choose from, each containing the one before; AccPar over"
            f" dp is the same either way. Ours has HyPar slower than OWT on {len(behind)} of {len(NETWORKS)} networks. One number"
            f" speaks for the summary's words: OWT over dp would be {literal['owt', 'dp']:.2f}, nearer to our"
            f" {MEANS['geometric'](over['owt', 'dp']):.2f} than {taken['owt', 'dp']}; HyPar over dp, and AccPar over both, are"
            " then further from ours. The first column follows from the summary's words, the second from this reading; ratios of two published averages are exact for"
            " geometric means only."
        ),
        heads=(
            "",
            "published, the summary's words",
            "published, as taken here",
            *(f"ours, {words}" for words in MEANS),
        ),
        rows=rows,
    )
