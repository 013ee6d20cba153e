"""AccPar on heterogeneous and identical boards: speed over dp, shares, and the end of each kind of boards."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from hypar.files.figures import Figure
from hypar.planning.planner import plan_model
from hypar.sharding.conventions import PAPER
from hypar.solve.balance import linear
from hypar.studies.page import Section
from hypar.studies.sections.accpar.runs import (
    LEVELS,
    MEANS,
    NETWORKS,
    PUBLISHED,
    TYPES,
    bars,
    by_network,
    over_dp,
    seconds,
)

if TYPE_CHECKING:
    from hypar.plan.plan import Plan
    from hypar.studies.sections.accpar.runs import Runs


def heterogeneous_boards(runs: Runs) -> Section:
    """Compute the speed on boards of both kinds."""
    first, second = runs.heterogeneous.groups
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
        title="Heterogeneous boards: speed over dp",
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
            " communication, and gradients take a group as long whatever its share."
        ),
        heads=("network", *PUBLISHED),
        rows=(*by_network(found), known, *ratios),
        figure=bars("Speed on heterogeneous boards", found),
    )


def identical_boards(runs: Runs) -> Section:
    """Compute the speed on boards of one kind."""
    times: dict[tuple[str, str], float] = {}
    less = {}
    for name, graph in runs.graphs.items():
        plans = {
            own: plan_model(graph, levels=LEVELS, strategy=own, hardware=runs.identical, convention=PAPER)
            for own in ("dp", *PUBLISHED)
        }
        by_time = plan_model(
            graph, levels=LEVELS, strategy="accpar", cost="accpar", hardware=runs.identical, convention=PAPER
        )
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
        title="Identical boards: speed over dp",
        text=(
            f"{runs.identical.num_devices} boards of TPU v3, {LEVELS} two-way levels. All shares are equal, and accpar counts the"
            f" bytes of its three types.{why} With `--cost accpar` (by time) it counts the seconds of the machine's links,"
            " hops included. Published averages for identical boards are not at hand."
        ),
        heads=("network", *found),
        rows=tuple(by_network(found)),
        figure=bars("Speed on identical boards", found),
    )


def shares(runs: Runs) -> Section:
    """Compute the types and the shares of the outermost split."""
    alone = linear(
        [1 / group.flop_per_s for group in runs.heterogeneous.groups],
        [0.0 for _ in runs.heterogeneous.groups],
    )
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
            " of the boards of TPU v2. Exact shares let the slowest group end first, with all that moves below; the linear"
            " rule is the paper's; the last column is of 180 and 420 TFLOP/s alone. A share of nothing leaves these boards"
            " idle, where a network is too small for the way between the two kinds."
        ),
        heads=("network", "types", "exact", "linear rule", "computation alone"),
        rows=tuple(rows),
    )


def ends(runs: Runs) -> Section:
    """Compute the end of each kind of boards."""
    rows, waiting = [], {}
    for name in NETWORKS:
        for own, plan in (("equal", runs.sharing(name, "equal")), ("exact", runs.plans[name, "accpar"])):
            assert plan.score is not None  # noqa: S101 (a machine was named, so there is one)
            done, step = _ends(plan), plan.score.time_s
            idle = {group.group: group.idle_s for group in plan.score.groups or ()}
            early = f"{1 - min(done.values()) / max(done.values()):.1%}" if len(done) > 1 else ""
            costs, waits = (
                [_ms(kept.get(group.name)) for group in runs.heterogeneous.groups] for kept in (done, idle)
            )
            rows.append((name, own, *costs, early, _ms(step), *waits))
            waiting[name, own] = idle[runs.heterogeneous.groups[1].name] / step
    return Section(
        title="Ends: when each kind of boards is done",
        text=(
            "In ms. The cost of each group by AccPar's cost, for which shares are found, and how much earlier one is done than"
            " the other; then the engine's step, and how long each group waits in it. In the engine the groups wait for each"
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


def _ends(plan: Plan) -> dict[str, float]:
    """Return the cost of each working group of the outermost split, with all splits below."""
    (first, *below), records = plan.splits, plan.splits[0].sides or ()
    return {
        record.group: record.received
        + math.fsum(split.cost for split in below if split.group == record.group)
        for record, share in zip(records, first.shares, strict=True)
        if share
    }


def _ms(time: float | None) -> str:
    return "" if time is None else f"{time * 1e3:.3f}"
