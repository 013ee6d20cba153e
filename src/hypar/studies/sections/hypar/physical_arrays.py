"""HyPar's Figures 10, 11 and 13 on ``hmc-physical``: the space of VGG-A, other sizes of arrays, one weird trick."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from hypar.files.figures import Figure
from hypar.schedule.step import lower
from hypar.sharding.conventions import MOVED, PAPER
from hypar.studies.page import Section
from hypar.studies.sections.hypar.arrays import faster, scaled
from hypar.studies.sections.hypar.networks import LEVELS
from hypar.studies.sections.hypar.physical import MACHINE
from hypar.studies.sections.hypar.plans import code, explored
from hypar.studies.sections.hypar.trick import over_trick

if TYPE_CHECKING:
    from hypar.studies.evaluation import Evaluation
    from hypar.studies.exploration import Exploration, Point
    from hypar.studies.sections.hypar.physical import Both

PUBLISHED_PEAK, OWN = "1000 1111", "0001 1111"
"""The published peak and HyPar's plan, conv5_2 and fc1: 0 for dp and 1 for mp, outermost level first."""


def figure_10_physical(ran: Both) -> Section:
    """Compare the points of VGG-A's space, and the seconds of conv5_2's sums at H4."""
    free = ("conv5_2", "fc1")
    spaces = {
        "hmc": explored(ran.published, "vgg-a", free),
        "physical": explored(ran.same, "vgg-a", free),
        "moved": explored(ran.same, "vgg-a", free, MOVED),
    }
    peaks = {name: found.ranked()[0] for name, found in spaces.items()}
    at = {name: code(spaces[name], peak) for name, peak in peaks.items()}
    rows = (
        ("peak", [peaks[name] for name in spaces]),
        (f"published peak, {PUBLISHED_PEAK}", [_point(found, PUBLISHED_PEAK) for found in spaces.values()]),
        (f"HyPar's plan, {OWN}", [_point(found, OWN) for found in spaces.values()]),
    )
    speeds = {
        what: [found.speedup(point) for found, point in zip(spaces.values(), points, strict=True)]
        for what, points in rows
    }
    apart = max(abs(own[1] / own[0] - 1) for own in speeds.values())
    mp = {
        (each.hardware, convention): _sums_s(each, convention, dp=False)
        for each in (ran.published, ran.same)
        for convention in (PAPER, MOVED)
    }
    dp = [_sums_s(each, MOVED, dp=True) for each in (ran.published, ran.same)]
    return Section(
        title="Figure 10 on hmc-physical: the space of VGG-A",
        text=(
            "Times faster than dp of points of the space in which conv5_2 and fc1 are free. The machine alone changes these"
            f" by at most {apart:.1%}. The count changes more: the partial sums of conv5_2 are added up before ReLU and the"
            " pool, where F has four times the elements that the paper's amounts have. For HyPar's own plan, mp at H4 alone,"
            f" they take {_ms(mp[ran.published.hardware, PAPER])} at H4 on `hmc` by the paper and"
            f" {_ms(mp[ran.published.hardware, MOVED])} by what moves, where dp's gradient takes {_ms(dp[0])};"
            f" on `hmc-physical`, with half the bytes, {_ms(mp[MACHINE, PAPER])}, {_ms(mp[MACHINE, MOVED])} and {_ms(dp[1])}."
            f" The fastest point is {at['hmc']} on `hmc`, {at['physical']} on `hmc-physical`, and {at['moved']} there by what"
            " moves."
        ),
        heads=("point, conv5_2 fc1", "hmc", "physical", "moved"),
        rows=tuple((what, *(f"{speed:.3f}" for speed in own)) for what, own in speeds.items()),
    )


def _point(found: Exploration, wanted: str) -> Point:
    """Return the point of a space with some choices."""
    return next(point for point in found.points if code(found, point) == wanted)


def _sums_s(ran: Evaluation, convention: str, *, dp: bool) -> float:
    """Return the seconds in which HyPar's plan of VGG-A, or dp there, adds up partial sums of conv5_2 at H4."""
    graph, choices, setting = ran.setting("vgg-a", "hypar")
    layer = [each.name for each in graph.layers].index("conv5_2")
    if dp:
        choices[layer] = (*choices[layer][:-1], choices[layer][0])
    step = lower(graph, choices, replace(setting, convention=convention))
    return math.fsum(
        move.seconds
        for of, move in zip(step.layers, step.moves, strict=True)
        if move is not None and (of, move.level, move.collective) == (layer, LEVELS - 1, "all_reduce")
    )


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.1f} ms"


def figure_11_physical(ran: Both) -> Section:
    """Compare the scaling of VGG-A."""
    swept = {
        "hmc": scaled(ran.published),
        "physical": scaled(ran.same),
        "moved": scaled(ran.same, convention=MOVED),
    }
    series = {
        f"{'HyPar' if strategy == 'hypar' else strategy}, {name}": faster(found)
        for name, each in swept.items()
        for strategy, found in each.items()
    }
    counts = [2**level for level in range(7)]
    rows = [
        (str(count), *(f"{values[place]:.2f}" for values in series.values()))
        for place, count in enumerate(counts)
    ]
    peaks = {name: counts[values.index(max(values))] for name, values in series.items()}
    lost = series["HyPar, moved"][-1] / series["HyPar, physical"][-1]
    turns = {name: (peaks[f"dp, {name}"], peaks[f"HyPar, {name}"]) for name in swept}
    return Section(
        title="Figure 11 on hmc-physical: scaling VGG-A",
        text=(
            "Times faster than one device, with 25.6 Gb/s in all. dp and HyPar are fastest at"
            f" {_turn(turns['hmc'])} devices on `hmc`, at {_turn(turns['physical'])} on `hmc-physical`, and at"
            f" {_turn(turns['moved'])} there by what moves. Whether a doubling pays depends on the time of computation beside"
            " that of communication, not on either alone; by what moves HyPar's plans lose more with every level, as sums before"
            f" pools, of full size, are at the levels of its mp: on 64 devices they reach {lost:.0%} of the paper's speed."
        ),
        heads=("devices", *series),
        rows=(*rows, ("fastest at", *map(str, peaks.values()))),
        figure=Figure(
            title="VGG-A from 1 to 64 devices, on both machines", x=[str(count) for count in counts],
            x_label="devices", y_label="times faster than one device", series=series, kind="lines", log=True,
        ),
    )  # fmt: skip


def _turn(peaks: tuple[int, int]) -> str:
    return f"{peaks[0]} and {peaks[1]}"


def figure_13_physical(ran: Both) -> Section:
    """Compare one weird trick with HyPar on both machines."""
    found = [over_trick(each) for each in (ran.published, ran.same, ran.moved)]
    rows = [(what, *(f"{each[what][part]:.2f}" for part in (0, 1) for each in found)) for what in found[0]]
    means = [sum(own[part] for own in each.values()) / len(each) for part in (0, 1) for each in found]
    counted = max(
        abs(moved / same - 1)
        for what in found[0]
        for same, moved in zip(found[1][what], found[2][what], strict=True)
    )
    return Section(
        title="Figure 13 on hmc-physical: HyPar over one weird trick",
        text=(
            f"The trick's time and energy over HyPar's. A single layer has no pool behind it: the count changes no ratio by"
            f" more than {counted:.1%}. The trick takes {means[4]:.2f} times the energy of HyPar on the mean, on `hmc`"
            f" {means[3]:.2f}, as cubes draw power at rest for its longer steps too."
        ),
        heads=(
            "", "performance, hmc", "physical", "moved", "energy, hmc", "physical", "moved",
        ),
        rows=(*rows, ("mean", *(f"{mean:.2f}" for mean in means))),
    )  # fmt: skip
