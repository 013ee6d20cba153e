"""Section 4 of the paper: chunks by its rule, their number, and Algorithm 1."""

from __future__ import annotations

from math import comb

from hypar.schedule.chunks.sizes import SizeSearch, groupings, rule_sizes, search_size
from hypar.studies.page import Section
from hypar.studies.sections.cgdp.published import (
    CHUNKS_OF_3,
    FASTEST,
    RANGE,
    STEP,
    STOP,
    SYNCHRONISATIONS,
    THREE_CHUNKS,
)
from hypar.studies.sections.cgdp.texts import chunks


def algorithm_1() -> SizeSearch:
    """Search on times that fall until the published size and rise after it."""
    return search_size(lambda size: abs(size - FASTEST), step=STEP, reach=RANGE)


def rule() -> Section:
    """Show six layers in chunks of every size."""
    count = sum(CHUNKS_OF_3)
    rows = []
    for size in range(1, count + 2):
        sizes = rule_sizes(count, size)
        published = chunks(CHUNKS_OF_3) if size == CHUNKS_OF_3[0] else ""
        rows.append((str(size), published, chunks(sizes), str(len(sizes))))
    return Section(
        title="Rule: chunks of a size",
        text=(
            f"{count} layers, section 4.2. Chunks of the size are formed from the last layer down; what is left over, or one"
            " chunk's worth where nothing is, stays single, for gradients that come late should be small. A size of all"
            " layers, or of more, leaves all of them single. A chunk is one synchronisation: section 4.1 counts"
            f" {SYNCHRONISATIONS} of {chunks(THREE_CHUNKS)} and {count} without chunks; ours counts {len(THREE_CHUNKS)} and"
            f" {len(rule_sizes(count, 1))}."
        ),
        heads=("size", "chunks, published", "chunks, ours", "number"),
        rows=tuple(rows),
    )


def proposition() -> Section:
    """Count the groupings one by one."""
    rows = []
    for count in (1, 2, 3, 6, 8, 12):
        published = sum(comb(count - 1, cuts) for cuts in range(1, count))
        rows.append((str(count), f"{published:,}", f"{sum(len(sizes) > 1 for sizes in groupings(count)):,}"))
    return Section(
        title="Proposition 4.1: groupings",
        text=(
            "The proposition's sum of binomials, k cuts in l - 1 places for k from 1 to l - 1, beside every grouping of l"
            " layers into consecutive chunks, formed and counted. The one that it leaves out is the single chunk of all"
            " layers, which overlaps nothing."
        ),
        heads=("layers", "published", "ours"),
        rows=tuple(rows),
    )


def algorithm() -> Section:
    """List every size that the search measures, and the one that ends it."""
    found = algorithm_1()
    rows = [
        (str(trial.iteration), str(trial.size), f"{trial.seconds:.0f}", str(trial.best), "")
        for trial in found.trials
    ]
    end = (str(found.stopped_at), str(found.unmeasured), "", str(found.size), "ends the search")
    return Section(
        title="Algorithm 1: the search for a size",
        text=(
            f"Step {STEP}, range {RANGE}, on made-up times that fall to size {FASTEST} and rise after it. Published, section"
            f" 5.3: it stops at iteration {STOP} and takes size {FASTEST}. Ours: it stops at iteration {found.stopped_at} and"
            f" takes size {found.size}. As printed: the sizes are 1, 2, .. step and then the multiples of the step, and the"
            " network trains ten iterations with each. Then comes the test, before the measurement: a size of the best plus"
            " step times range, or more, ends the search. Any other is measured, and becomes the best if it is strictly faster. The"
            " algorithm does not look at the number of layers, and neither does ours: a size beyond them leaves every layer"
            " single, as size 1, and is never strictly faster."
        ),
        heads=("iteration", "size", "time", "best so far", ""),
        rows=(*rows, end),
    )
