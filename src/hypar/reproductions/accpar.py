"""AccPar (HPCA 2020): speed over dp on unlike and on like boards, shares, what links decide, and amounts.

Published numbers stand here to be printed beside ours; no computation reads them, but to say at which bandwidth they
would come out.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from hypar.balance import linear
from hypar.graph import load_model
from hypar.hardware import Machine, MixedMachine, load_machine, load_mixed
from hypar.placement import placement
from hypar.planner import plan_model
from hypar.plots import Figure
from hypar.reproductions.base import Page, Reproduction, Section, geometric_mean
from hypar.score import totals_of
from hypar.scoring import score_plan
from hypar.traffic import received

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hypar.plan import Plan

    Speeds = Mapping[str, Mapping[str, float]]
    """Times faster than dp, by strategy and network."""

NETWORKS = ("lenet-c", "alexnet", "vgg11", "vgg13", "vgg16", "vgg19", "resnet18", "resnet34", "resnet50")
UNLIKE, LIKE = "tpu-v2-v3", "tpu-v3"
BATCH, LEVELS = 512, 8
PUBLISHED = {"owt": 2.98, "hypar": 3.78, "accpar": 6.30}
"""Averages over dp on the unlike array, from a summary of the paper."""

MEANS: Mapping[str, Callable[[Mapping[str, float]], float]] = {
    "geometric": lambda speeds: geometric_mean(speeds.values()),
    "arithmetic": lambda speeds: math.fsum(speeds.values()) / len(speeds),
}
"""Over the networks."""

SHARE = Fraction(3, 10)
TYPES = {"batch": "I", "in_channels": "II", "out_channels": "III"}
CELLS = {
    "batch": (("0", "0"), ("ab", "ab"), ("b", "0")),
    "in_channels": (("0", "b"), ("0", "b"), ("0", "0")),
    "out_channels": (("ab", "ab"), ("0", "0"), ("b", "0")),
}
"""Parts of A(F) and A(E) that the side with share a receives, b = 1 - a: rows layer l, columns layer l + 1."""


class Links(NamedTuple):
    """Other links of the unlike boards.

    Attributes:
        inside: how many times slower those inside each kind of boards are.
        outward: how many times slower those between the kinds are.
        latency: whether a hop takes time besides.
    """

    inside: int = 1
    outward: int = 1
    latency: bool = True

    @property
    def cells(self) -> tuple[str, str, str]:
        """As the table has them."""
        return f"1/{self.inside}", f"1/{self.outward}", "as assumed" if self.latency else "none"


BOTH = tuple(Links(scale, scale) for scale in (1, 4, 16, 64))
OTHERS = (Links(outward=16), Links(latency=False))


class Runs:
    """Networks, machines and plans on unlike boards, each made once."""

    def __init__(self) -> None:
        """Only accpar is planned for a machine: the others count bytes."""
        self.graphs = {name: load_model(name).with_batch(BATCH) for name in NETWORKS}
        self.unlike, self.like = load_mixed(UNLIKE), load_machine(LIKE)
        self.plans = {
            (name, own): plan_model(graph, strategy=own, hardware=self.unlike)
            for name, graph in self.graphs.items()
            for own in ("dp", *PUBLISHED)
        }
        self.speeds = over_dp({key: seconds(plan) for key, plan in self.plans.items()})

    def sharing(self, name: str, shares: str) -> Plan:
        """Accpar's plan with shares found otherwise."""
        return plan_model(self.graphs[name], strategy="accpar", shares=shares, hardware=self.unlike)

    def linked(self, links: Links) -> Speeds:
        """With other links."""
        if links == Links():
            return self.speeds
        machine = relinked(self.unlike, links)
        found = {
            (name, own): seconds(plan_model(self.graphs[name], strategy=own, hardware=machine))
            if own == "accpar"
            else score_plan(plan, hardware=machine, model=self.graphs[name]).time_s
            for (name, own), plan in self.plans.items()
        }
        return over_dp(found)


class AccPar:
    """The paper's averages and tables, and what decides them."""

    def run(self, progress: Callable[[int, int], None]) -> Page:
        """Speeds, shares, ends, links, amounts."""
        runs = Runs()
        parts = (unlike_boards, like_boards, shares, ends, what_if, amounts)
        sections = []
        for part in parts:
            sections.append(part(runs))
            progress(len(sections), len(parts))
        return Page(
            name="accpar",
            title="AccPar (HPCA 2020): published and ours",
            text=(
                f"Written by `hypar reproduce accpar` from the model files and the machines `{UNLIKE}` and `{LIKE}` alone;"
                f" a test computes it again. Batch {BATCH}, 32-bit elements. Times are the engine's, of one training step,"
                " relative to dp with equal shares on the same boards. Only three averages of the paper are at hand, from a"
                " summary of it, and not how they were averaged: both means stand beside them. Nothing is fitted to them."
            ),
            sections=tuple(sections),
        )


def unlike_boards(runs: Runs) -> Section:
    """Speed on boards of both kinds."""
    first, second = runs.unlike.sides
    most = (first.flop_per_s + second.flop_per_s) / (2 * first.flop_per_s)
    found = runs.speeds
    ordered = [
        name for name in NETWORKS if found["owt"][name] <= found["hypar"][name] <= found["accpar"][name]
    ]
    slower = [f"{own} on {name}" for own in PUBLISHED for name in NETWORKS if found[own][name] < 1]
    geometric, plain = (mean(found["accpar"]) / mean(found["hypar"]) for mean in MEANS.values())
    known = ("published average", *(f"{PUBLISHED[own]:.2f}" for own in found))
    ratios = (
        (f"ratio, {words}", *(f"{mean(speeds) / PUBLISHED[own]:.2f}" for own, speeds in found.items()))
        for words, mean in MEANS.items()
    )
    return Section(
        title="Unlike boards: speed over dp",
        text=(
            f"{first.num_devices} boards of TPU v2 beside {second.num_devices} of TPU v3, all {LEVELS} levels; owt and hypar"
            f" share equally, accpar exactly. The three come in the published order on {len(ordered)} of {len(NETWORKS)}"
            f" networks. Slower than dp: {', '.join(slower) or 'none'}; a ResNet has but one small linear layer, and Lenet's"
            " layers are so small that hops decide. All averages are lower than published, accpar's most. The published"
            " ones leave open the bandwidth between and inside the groups, what a transfer takes besides, how large the"
            " layers of each network are (which Lenet, which pools), a simulated board's efficiency and its one number"
            " format, what overlaps, whether a ratio is one for a split or for each layer, and the kind of mean. Links, here"
            " those of real boards, decide how high the three are, see What if. They do not explain accpar over hypar,"
            f" published as {PUBLISHED['accpar'] / PUBLISHED['hypar']:.2f}: ours are {geometric:.2f} (geometric) and"
            f" {plain:.2f}. Shares alone give {most:.2f} where nothing but computation counts; here most of a step is"
            " communication, and gradients take a side as long whatever its share."
        ),
        heads=("network", *PUBLISHED),
        rows=(*_by_network(found), known, *ratios),
        figure=_bars("Speed on unlike boards", found),
    )


def like_boards(runs: Runs) -> Section:
    """Speed on boards of one kind."""
    times: dict[tuple[str, str], float] = {}
    less = {}
    for name, graph in runs.graphs.items():
        plans = {
            own: plan_model(graph, levels=LEVELS, strategy=own, hardware=runs.like)
            for own in ("dp", *PUBLISHED)
        }
        by_time = plan_model(graph, levels=LEVELS, strategy="accpar", cost="accpar", hardware=runs.like)
        times |= {(name, own): seconds(plan) for own, plan in (*plans.items(), ("accpar, by time", by_time))}
        less[name] = plans["dp"].cost.value / plans["accpar"].cost.value
    found = over_dp(times)
    why = "".join(
        f" On {name} its plan moves {less[name]:.1f} times fewer bytes than dp and is still slower: in more transfers, each"
        " of which waits for its hops."
        for name in NETWORKS
        if found["accpar"][name] < 1
    )
    return Section(
        title="Like boards: speed over dp",
        text=(
            f"{runs.like.num_devices} boards of TPU v3, {LEVELS} two-way levels. All shares are equal, and accpar counts the"
            f" bytes of its three types.{why} With `--cost accpar` (by time) it counts the seconds of the machine's links,"
            " hops included. Published averages for like boards are not at hand."
        ),
        heads=("network", *found),
        rows=tuple(_by_network(found)),
        figure=_bars("Speed on like boards", found),
    )


def shares(runs: Runs) -> Section:
    """What the outermost split does."""
    alone = linear([1 / side.flop_per_s for side in runs.unlike.sides], [0.0 for _ in runs.unlike.sides])
    rows = []
    for name in NETWORKS:
        exact, rule = runs.plans[name, "accpar"].splits[0], runs.sharing(name, "linear").splits[0]
        counts = Counter(TYPES.get(exact.dim(layer) or "", "whole") for layer in exact.choices)
        types = ", ".join(f"{counts[kind]} {kind}" for kind in (*TYPES.values(), "whole") if counts[kind])
        rows.append((name, types, *(f"{share:.4f}" for share in (exact.shares[0], rule.shares[0], alone[0]))))
    return Section(
        title="Shares: of the boards of TPU v2",
        text=(
            "The outermost split, between the two kinds of boards: how many layers and joins are of each type, and the share"
            " of the boards of TPU v2. Exact shares let the slowest side end first, with all that moves below; the linear"
            " rule is the paper's; the last column is of 180 and 420 TFLOP/s alone. A share of nothing leaves these boards"
            " idle, where a network is too small for the way between the two kinds."
        ),
        heads=("network", "types", "exact", "linear rule", "computation alone"),
        rows=tuple(rows),
    )


def ends(runs: Runs) -> Section:
    """When each kind of boards is done."""
    rows, waiting = [], {}
    for name in NETWORKS:
        for own, plan in (("equal", runs.sharing(name, "equal")), ("exact", runs.plans[name, "accpar"])):
            assert plan.score is not None  # noqa: S101 (a machine was named, so there is one)
            done, step = _ends(plan), plan.score.time_s
            idle = {group.group: group.idle_s for group in plan.score.groups or ()}
            early = f"{1 - min(done.values()) / max(done.values()):.1%}" if len(done) > 1 else ""
            costs, waits = ([_ms(kept.get(side.name)) for side in runs.unlike.sides] for kept in (done, idle))
            rows.append((name, own, *costs, early, _ms(step), *waits))
            waiting[name, own] = idle[runs.unlike.sides[1].name] / step
    return Section(
        title="Ends: when each kind of boards is done",
        text=(
            "In ms. What each side costs by AccPar's cost, for which shares are found, and how much earlier one is done than"
            " the other; then the engine's step, and how long each side waits in it. In the engine the sides wait for each"
            " other at each transfer between them, and small work, memory and updates count as well, of which the cost knows"
            " nothing and which keep TPU v2 longer. Boards without a share have empty cells."
        ),
        heads=(
            "network", "shares", "TPU v2 ends", "TPU v3 ends", "earlier", "step", "TPU v2 waits", "TPU v3 waits",
        ),
        rows=tuple(rows),
        figure=Figure(
            title="Part of the step that boards of TPU v3 wait", x=list(NETWORKS), x_label="", y_label="part of the step",
            series={own: [waiting[name, own] for name in NETWORKS] for own in ("equal", "exact")},
        ),
    )  # fmt: skip


def what_if(runs: Runs) -> Section:
    """What other links make of the averages."""
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


def amounts(runs: Runs) -> Section:
    """The nine cells."""
    layer = next(layer for layer in runs.graphs["alexnet"].contracted.layers if layer.name == "fc2").einsum
    values, both = {"0": Fraction(0), "b": 1 - SHARE, "ab": SHARE * (1 - SHARE)}, (SHARE, 1 - SHARE)
    rows = []
    for made, cells in CELLS.items():
        for read, cell in zip(TYPES, cells, strict=True):
            before, after = placement(layer, made, "output"), placement(layer, read, "input")
            ours = (received(before, after, both)[0], received(after, before, both)[0])
            numbers = (f"{float(part):.2f}" for part in (*(values[word] for word in cell), *ours))
            rows.append((f"{TYPES[made]} to {TYPES[read]}", *cell, *numbers))
    at = f"{float(SHARE)}"
    return Section(
        title="Amounts: between two layers",
        text=(
            "Parts of A(F) and of A(E) that a side with share a receives, b = 1 - a, between a layer of one type and the"
            f" next of another: the paper's nine cells, their values at a = {at}, and ours there. Ours follow from what a"
            " type needs of a tensor and does not hold; no table is stored. A test has them at other shares, and the plans of"
            " seven levels for AlexNet with its pools folded into convolutions, as the paper's tables take it."
        ),
        heads=("types", "A(F), published", "A(E)", f"A(F) at {at}", "A(E)", "A(F), ours", "A(E)"),
        rows=tuple(rows),
    )


def relinked(base: MixedMachine, links: Links) -> MixedMachine:
    """The unlike boards with other links."""
    sides = []
    for side in base.sides:
        assert isinstance(side.machine, Machine)  # noqa: S101 (both kinds are like boards)
        (tier,) = side.machine.tiers
        changes = {
            "devices": side.num_devices,
            "link_bandwidth": f"{tier.bytes_per_s / links.inside} B/s",
            "latency": f"{tier.latency_s * links.latency} s",
        }
        outward, latency = side.bytes_per_s / links.outward, side.latency_s * links.latency
        machine = load_machine(side.name, changes)
        sides.append(replace(side, machine=machine, bytes_per_s=outward, latency_s=latency))
    return replace(base, sides=tuple(sides))


def seconds(plan: Plan) -> float:
    """A step on the machine that a plan was made for."""
    return totals_of(plan.score).time_s


def over_dp(times: Mapping[tuple[str, str], float]) -> Speeds:
    """How many times faster than dp, by strategy and network."""
    found: dict[str, dict[str, float]] = {}
    for (name, own), time in times.items():
        if own != "dp":
            found.setdefault(own, {})[name] = times[name, "dp"] / time
    return found


def _ends(plan: Plan) -> dict[str, float]:
    """What each side of the outermost split that works costs with all below."""
    (first, *below), records = plan.splits, plan.splits[0].sides or ()
    return {
        record.group: record.received
        + math.fsum(split.cost for split in below if split.group == record.group)
        for record, share in zip(records, first.shares, strict=True)
        if share
    }


def _ms(time: float | None) -> str:
    """A time in ms, where there is one."""
    return "" if time is None else f"{time * 1e3:.3f}"


def _by_network(found: Speeds) -> Iterator[tuple[str, ...]]:
    """A row for each network, then both means."""
    for name in NETWORKS:
        yield (name, *(f"{speeds[name]:.2f}" for speeds in found.values()))
    for words, mean in MEANS.items():
        yield (f"{words} mean", *(f"{mean(speeds):.2f}" for speeds in found.values()))


def _ratios(means: Sequence[float]) -> list[float]:
    """Means of the three over the published ones."""
    return [mean / known for mean, known in zip(means, PUBLISHED.values(), strict=True)]


def _bars(title: str, found: Speeds) -> Figure:
    """A bar for each network and strategy."""
    series = {own: [speeds[name] for name in NETWORKS] for own, speeds in found.items()}
    return Figure(title=title, x=list(NETWORKS), x_label="", y_label="times faster than dp", series=series)


def _crossing(points: Sequence[tuple[float, float]], wanted: float) -> str:
    """The factor at which a mean is as wanted, on lines over the factor's logarithm."""
    for (low, before), (high, after) in pairwise(points):
        if min(before, after) <= wanted <= max(before, after):
            return f"{low * (high / low) ** ((wanted - before) / (after - before)):.1f}"
    return f"at none up to {points[-1][0]}"


plugin: Reproduction = AccPar()
