"""HyPar's Figures 11 and 12: arrays of other sizes, and other links."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from hypar.files.figures import Figure
from hypar.studies.evaluation import speedups
from hypar.studies.page import Section, geometric_mean
from hypar.studies.read_memory import read_memory
from hypar.studies.sections.hypar.networks import NETWORKS, ORDERED, SPEED, TORUS, bars
from hypar.studies.sweep import sweep_model
from hypar.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.plan.score import Totals
    from hypar.studies.evaluation import Evaluation


def figure_11(ran: Evaluation) -> Section:
    """Compute the scaling of VGG-A."""
    counts = [2**level for level in range(7)]
    series: dict[str, list[float]] = {}
    swept: dict[str, dict[str, list[Totals]]] = {}
    for bandwidth, words in (("total", "25.6 Gb/s in all"), ("link", "1600 Mb/s a link")):
        swept[bandwidth] = scaled(ran, {"bandwidth": [bandwidth]})
        series |= {f"{strategy}, {words}": faster(found) for strategy, found in swept[bandwidth].items()}
    rows = [
        (str(count), *(f"{values[place]:.2f}" for values in series.values()))
        for place, count in enumerate(counts)
    ]
    peaks = {name: counts[values.index(max(values))] for name, values in series.items()}
    shared = {strategy: f"{strategy}, 25.6 Gb/s in all" for strategy in ("dp", "hypar")}
    moved = [found.communication_bytes for found in swept["total"]["hypar"]]
    grown = [0.0, *(after / before if before else 0.0 for before, after in pairwise(moved))]
    graph = ran.graphs["vgg-a"]
    whole, alone = ((),) * len(graph.contracted.layers), swept["total"]["dp"][0].memory_bytes
    held = read_memory(alone, graph.contracted, whole, graph.element_bytes)
    return Section(
        title="Figure 11: scaling VGG-A",
        text=(
            f"Times faster than one device, whose {format_bytes(held)} would not fit its memory."
            " Published: dp falls after 8 devices, HyPar after 32. Where all devices share 25.6 Gb/s, dp falls after"
            f" {peaks[shared['dp']]} and has {series[shared['dp']][3] / max(series[shared['dp']]):.0%} of that speed on 8,"
            f" HyPar after {peaks[shared['hypar']]}: with twice the devices each link has half the bandwidth, and HyPar's"
            f" bytes grow {grown[5]:.2f} times from 16 to 32. Where each link keeps its 1600 Mb/s neither falls up to"
            f" {counts[-1]}: a gradient then takes at most twice the time of one link however many levels there are. The"
            " published turns lie between the two readings."
        ),
        heads=("devices", *series),
        rows=(*rows, ("fastest at", *map(str, peaks.values()))),
        figure=Figure(
            title="VGG-A from 1 to 64 devices", x=[str(count) for count in counts], x_label="devices",
            y_label="times faster than one device", series=series, kind="lines", log=True,
        ),
    )  # fmt: skip


def figure_11_right(ran: Evaluation) -> Section:
    """Count the communication of VGG-A over the sizes of arrays."""
    counts = [2**level for level in range(7)]
    moved = {
        strategy: [each.communication_bytes / 1e9 for each in found]
        for strategy, found in scaled(ran).items()
    }
    lower = [count for count, dp, own in zip(counts, *moved.values(), strict=True) if own < dp]
    rows = tuple(
        (str(count), f"{dp:.3f}", f"{own:.3f}", f"{dp / own:.1f}" if own else "")
        for count, dp, own in zip(counts, *moved.values(), strict=True)
    )
    return Section(
        title="Figure 11 right: communication of VGG-A",
        text=(
            "The figure's right axis: GB that all devices receive in a step. The paper's text prints none of its points, only"
            f" that HyPar always has the lower total communication: so it is on {', '.join(map(str, lower))} devices. dp's"
            " bytes are twice the gradients for each device but one. HyPar's grow more slowly: dp moves"
            f" {rows[1][3]} times as much on 2 devices and {rows[-1][3]} times as much on {counts[-1]}."
        ),
        heads=("devices", "dp", "HyPar", "dp over HyPar"),
        rows=rows,
        figure=Figure(
            title="Communication of VGG-A", x=[str(count) for count in counts], x_label="devices",
            y_label="GB a step", series={"dp": moved["dp"], "HyPar": moved["hypar"]}, kind="lines",
        ),
    )  # fmt: skip


def figure_12(ran: Evaluation) -> Section:
    """Compare the H-tree with the torus."""
    tree, torus = speedups(ran.base), ran.scores(TORUS)
    ordered = ran.scores(ORDERED)
    own = {name: ran.base[name, "dp"].time_s / torus[name, "hypar"].time_s for name in NETWORKS}
    straight = {name: ran.base[name, "dp"].time_s / ordered[name, "hypar"].time_s for name in NETWORKS}
    rows = [(name, *(f"{values[name]:.2f}" for values in (tree, own, straight))) for name in NETWORKS]
    means = [geometric_mean(values.values()) for values in (tree, own, straight)]
    known = (SPEED["mean"], SPEED["torus"], SPEED["torus"])
    faster = sum(tree[name] > own[name] for name in NETWORKS if name != "sfc")
    return Section(
        title="Figure 12: H-tree and torus",
        text=(
            "HyPar's plans on both, over dp on the H-tree. 25.6 Gb/s are shared by the 16 leaves of the tree or by the 32"
            " links of a 4 x 4 torus, so each level of the torus has half the bandwidth; with dimension-ordered routing,"
            " which sends both ways round a ring of four over the same links, the two outer levels have a quarter. Published:"
            f" on SFC both are more than 10 times faster, here {tree['sfc']:.1f} and {own['sfc']:.1f}; on the others the"
            f" H-tree is the faster, here on {faster} of {len(NETWORKS) - 1}."
        ),
        heads=("network", "H-tree", "torus, balanced", "torus, dimension-ordered"),
        rows=(
            *rows,
            ("mean", *(f"{mean:.2f}" for mean in means)),
            ("published mean", *(f"{number}" for number in known)),
            ("ratio", *(f"{mean / number:.2f}" for mean, number in zip(means, known, strict=True))),
        ),
        figure=bars(
            "H-tree and torus", "times faster than dp on the H-tree", {"H-tree": tree, "torus": own}, log=True
        ),
    )


def scaled(
    ran: Evaluation, changes: Mapping[str, Sequence[Any]] | None = None, convention: str | None = None
) -> dict[str, list[Totals]]:
    """Score VGG-A by dp and by HyPar on 1 to 64 devices, counted by another convention if one is given."""
    runs = sweep_model(
        ran.graphs["vgg-a"], hardware=ran.hardware, levels=range(7), strategy=("dp", "hypar"), changes=changes,
        inter_weight=ran.inter_weight, scale=True, convention=convention or ran.convention,
    )  # fmt: skip
    found: dict[str, list[Totals]] = {"dp": [], "hypar": []}
    for run in runs:
        assert run.totals is not None  # noqa: S101 (a greedy search of two types fits)
        found[run.axes["strategy"]].append(run.totals)
    return found


def faster(found: Sequence[Totals]) -> list[float]:
    """Return how many times faster each is than the first."""
    return [found[0].time_s / each.time_s for each in found]
