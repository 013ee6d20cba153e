"""AccPar's averages with other links."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

from hypar.files.figures import Figure
from hypar.studies.page import Section
from hypar.studies.sections.accpar.runs import MEANS, PUBLISHED, Links

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.studies.sections.accpar.runs import Runs

BOTH = tuple(Links(scale, scale) for scale in (1, 4, 16, 64))

OTHERS = (Links(outward=16), Links(latency=False))


def what_if(runs: Runs) -> Section:
    """Compute the averages with other links."""
    means = {
        (links, words): [mean(speeds[own]) for own in PUBLISHED]
        for links, speeds in ((links, runs.linked(links)) for links in (*BOTH, *OTHERS))
        for words, mean in MEANS.items()
    }
    over = [accpar / hypar for _, hypar, accpar in means.values()]
    closest, kind = min(means, key=lambda key: max(abs(math.log(ratio)) for ratio in _ratios(means[key])))
    ratios = _ratios(means[closest, kind])
    lines = {
        (own, words): [(links.inside, means[links, words][index]) for links in BOTH]
        for words in MEANS
        for index, own in enumerate(PUBLISHED)
    }
    where = [
        f"{words} means {', '.join(f'{own} {_crossing(lines[own, words], PUBLISHED[own])}' for own in PUBLISHED)}"
        for words in MEANS
    ]
    known = tuple(f"{number:.2f}" for number in PUBLISHED.values())
    return Section(
        title="What if: other links",
        text=(
            "The means with other links; the first row is the machine as it is, and nothing is set by the others. Links"
            " inside the two groups decide, as seven of the eight levels are there; those between them hardly do. The slower"
            " they are, the more of a step is communication, most of all of dp's. Read between the first rows, the published"
            f" averages would come out with links slower by these factors: {'; '.join(where)}. No one bandwidth gives all"
            f" three, and accpar over hypar stays from {min(over):.2f} to {max(over):.2f}. Latency is the time that a hop"
            " takes besides the bytes, which AccPar's cost as published does not have. Closest to the published averages, at"
            f" {min(ratios):.2f} to {max(ratios):.2f} of them, are the {kind} means of the row {', '.join(closest.cells)}."
        ),
        heads=("inside", "outward", "latency", *(f"{own}, {words}" for words in MEANS for own in PUBLISHED)),
        rows=(
            *((*links.cells, *(f"{mean:.2f}" for words in MEANS for mean in means[links, words]))
              for links in (*BOTH, *OTHERS)),
            ("published", "", "", *known, *known),
        ),
        figure=Figure(
            title="Geometric means as links get slower", x=[links.cells[0] for links in BOTH],
            x_label="bandwidth inside and outward", y_label="times faster than dp", kind="lines",
            series={own: [mean for _, mean in lines[own, "geometric"]] for own in PUBLISHED},
        ),
    )  # fmt: skip


def _ratios(means: Sequence[float]) -> list[float]:
    return [mean / known for mean, known in zip(means, PUBLISHED.values(), strict=True)]


def _crossing(points: Sequence[tuple[float, float]], wanted: float) -> str:
    """Interpolate the factor, on a logarithmic scale, at which a mean equals the wanted one."""
    for (low, before), (high, after) in pairwise(points):
        if min(before, after) <= wanted <= max(before, after):
            return f"{low * (high / low) ** ((wanted - before) / (after - before)):.1f}"
    return f"at none up to {points[-1][0]}"
