"""AccPar (HPCA 2020): speed over dp on heterogeneous and identical boards, shares, other links, and amounts."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import amounts as read
import kit

import hypar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

GIVEN = kit.given("accpar")
NETWORKS: list[str] = GIVEN["networks"]
PUBLISHED: dict[str, float] = GIVEN["averages"]
SUMMARY = dict(zip(("owt", "hypar", "dp"), PUBLISHED.values(), strict=True))
"""The averages of accpar over other strategies, as the summary words them."""

LEVELS = 8
TYPES = {"batch": "I", "in_channels": "II", "out_channels": "III"}
MEANS: dict[str, Callable[[dict[str, float]], float]] = {
    "geometric": lambda own: kit.geometric_mean(list(own.values())),
    "arithmetic": lambda own: math.fsum(own.values()) / len(own),
}
Speeds = dict[str, dict[str, float]]


class Links(NamedTuple):
    """Slowdowns of the links inside each kind of boards and between the kinds, and whether a hop has a latency."""

    inside: int = 1
    outward: int = 1
    latency: bool = True


@cache
def graph(name: str) -> hypar.LayerGraph:
    """Load a network at the paper's mini-batch."""
    return hypar.load_model(name, batch=512)


@cache
def boards(links: Links = Links()) -> Any:  # noqa: B008 (a constant)
    """Return the heterogeneous boards, with other links if asked for."""
    base = hypar.load_machine("tpu-v2-v3")
    groups = []
    for group in base.groups:
        machine: Any = group.machine
        if links.inside != 1 or not links.latency:
            (tier,) = machine.tiers
            changes = {
                "devices": group.num_devices,
                "link_bandwidth": f"{tier.bytes_per_s / links.inside} B/s",
                "latency": f"{tier.latency_s * links.latency} s",
                "compute.peak": f"{machine.compute.flop_per_s(1)} FLOP/s",
            }
            machine = hypar.load_machine(group.name, changes)
        outward, latency = group.bytes_per_s / links.outward, group.latency_s * links.latency
        groups.append(replace(group, machine=machine, bytes_per_s=outward, latency_s=latency))
    return replace(base, groups=tuple(groups))


@cache
def plan(name: str, own: str, shares: str | None = None, links: Links = Links()) -> hypar.Plan:  # noqa: B008
    """Plan a network on the heterogeneous boards; only accpar needs their links, the other strategies count bytes."""
    return hypar.plan_model(
        graph(name), strategy=own, shares=shares, hardware=boards(links), convention="paper"
    )


def over_dp(times: Mapping[tuple[str, str], float]) -> Speeds:
    """Return the speedups over dp, by strategy and network."""
    found: Speeds = {}
    for (name, own), time in times.items():
        if own != "dp":
            found.setdefault(own, {})[name] = times[name, "dp"] / time
    return found


@cache
def speeds(links: Links = Links()) -> Speeds:  # noqa: B008
    """Return the speedups on the heterogeneous boards."""
    times = {}
    for name in NETWORKS:
        for own in ("dp", *PUBLISHED):
            if own == "accpar" or links == Links():
                times[name, own] = kit.scored(plan(name, own, links=links)).time_s
            else:
                times[name, own] = hypar.score_plan(
                    plan(name, own), hardware=boards(links), model=graph(name), convention="paper"
                ).time_s
    return over_dp(times)


def by_network(found: Speeds) -> list[tuple[Any, ...]]:
    """Return a row for each network, then one for each mean."""
    rows = [(name, *(own[name] for own in found.values())) for name in NETWORKS]
    return [*rows, *((f"{words} mean", *map(mean, found.values())) for words, mean in MEANS.items())]


def averages() -> kit.Result:
    found = speeds()
    over = {
        (fast, slow): {name: found[fast][name] / found.get(slow, {}).get(name, 1.0) for name in NETWORKS}
        for fast, slow in (*((own, "dp") for own in PUBLISHED), ("accpar", "owt"), ("accpar", "hypar"), ("hypar", "owt"))
    }  # fmt: skip
    taken = {**PUBLISHED, "dp": 1.0}
    literal = {own: SUMMARY["dp"] / number for own, number in (*SUMMARY.items(), ("accpar", 1.0))}
    literal["accpar"] = SUMMARY["dp"]
    rows = [
        (f"{fast} over {slow}", literal[fast] / literal[slow], taken[fast] / taken[slow],
         *(mean(own) for mean in MEANS.values()))
        for (fast, slow), own in over.items()
    ]  # fmt: skip
    behind = sum(ratio < 1 for ratio in over["hypar", "owt"].values())
    return {
        "rows": rows, "literal": literal["hypar"] / literal["owt"], "behind": behind, "owt": literal["owt"],
        "own": MEANS["geometric"](found["owt"]),
    }  # fmt: skip


def heterogeneous() -> kit.Result:
    found, (first, second) = speeds(), boards().groups
    means = {words: [mean(own) for own in found.values()] for words, mean in MEANS.items()}
    known = list(PUBLISHED.values())
    ratios = [
        (f"ratio, {words}", *(own / one for own, one in zip(values, known, strict=True)))
        for words, values in means.items()
    ]
    return {
        "rows": [*by_network(found), ("published average", *known), *ratios],
        "ordered": sum(found["owt"][one] <= found["hypar"][one] <= found["accpar"][one] for one in NETWORKS),
        "slower": ", ".join(f"{own} on {name}" for own in PUBLISHED for name in NETWORKS if found[own][name] < 1),
        "over": [own[2] / own[1] for own in means.values()],
        "boards": [first.num_devices, second.num_devices],
        "most": (first.flop_per_s(4) + second.flop_per_s(4)) / (2 * first.flop_per_s(4)),
    }  # fmt: skip


def identical() -> kit.Result:
    machine = hypar.load_machine("tpu-v3", {"compute.peak": "420 TFLOP/s"})
    times: dict[tuple[str, str], float] = {}
    less = {}
    for name in NETWORKS:
        plans = {
            own: hypar.plan_model(graph(name), levels=LEVELS, hardware=machine, convention="paper", **asked)
            for own, asked in GIVEN["strategies"].items()
        }
        times |= {(name, own): kit.scored(found).time_s for own, found in plans.items()}
        less[name] = plans["dp"].cost.value / plans["accpar"].cost.value
    found = over_dp(times)
    why = "".join(
        f" On {name} its plan moves {less[name]:.1f} times fewer bytes than dp and is still slower: in more transfers, each"
        " of which waits for its hops."
        for name in NETWORKS
        if found["accpar"][name] < 1
    )
    return {"rows": by_network(found), "boards": machine.num_devices, "why": why}


def shares() -> kit.Result:
    first, second = boards().groups
    alone = first.flop_per_s(4) / (first.flop_per_s(4) + second.flop_per_s(4))
    rows = []
    for name in NETWORKS:
        exact, rule = (plan(name, "accpar", own).splits[0] for own in (None, "linear"))
        count = Counter(TYPES.get(exact.dim(layer) or "", "whole") for layer in exact.choices)
        types = ", ".join(f"{count[kind]} {kind}" for kind in (*TYPES.values(), "whole") if count[kind])
        rows.append((name, types, exact.shares[0], rule.shares[0], alone))
    return {"rows": rows}


def ends() -> kit.Result:
    rows: list[tuple[Any, ...]] = []
    names = [group.name for group in boards().groups]
    series: dict[str, list[float]] = {"equal": [], "exact": []}
    for name in NETWORKS:
        for own, waiting in series.items():
            found = plan(name, "accpar", "equal" if own == "equal" else None)
            (outer, *below), step = found.splits, kit.scored(found)
            done = {
                record.group: record.received + math.fsum(one.cost for one in below if one.group == record.group)
                for record, share in zip(outer.sides or (), outer.shares, strict=True)
                if share
            }  # fmt: skip
            idle = {group.group: group.idle_s for group in step.groups or ()}
            early = 1 - min(done.values()) / max(done.values()) if len(done) > 1 else None
            costs, waits = (
                [1e3 * kept[one] if one in kept else None for one in names] for kept in (done, idle)
            )
            rows.append((name, own, *costs, early, 1e3 * step.time_s, *waits))
            waiting.append(idle[names[1]] / step.time_s)
    return {"rows": rows, "series": series, "x": NETWORKS}


def crossing(points: Sequence[tuple[float, float]], wanted: float) -> str:
    """Interpolate the factor, on a logarithmic scale, at which a mean equals the wanted one."""
    for (low, before), (high, after) in pairwise(points):
        if min(before, after) <= wanted <= max(before, after):
            return f"{low * (high / low) ** ((wanted - before) / (after - before)):.1f}"
    return f"at none up to {points[-1][0]}"


def what_if() -> kit.Result:
    both = [Links(scale, scale) for scale in (1, 4, 16, 64)]
    means = {
        (links, words): [mean(speeds(links)[own]) for own in PUBLISHED]
        for links in (*both, Links(outward=16), Links(latency=False))
        for words, mean in MEANS.items()
    }
    ratios = {
        key: [own / known for own, known in zip(values, PUBLISHED.values(), strict=True)]
        for key, values in means.items()
    }
    closest = min(ratios, key=lambda key: max(abs(math.log(ratio)) for ratio in ratios[key]))
    cells = {
        links: (f"1/{links.inside}", f"1/{links.outward}", "as assumed" if links.latency else "none")
        for links, _ in means
    }
    where = []
    for words in MEANS:
        each = [
            f"{own} {crossing([(links.inside, means[links, words][at]) for links in both], known)}"
            for at, (own, known) in enumerate(PUBLISHED.items())
        ]
        where.append(f"{words} means {', '.join(each)}")
    rows = [(*own, *(one for words in MEANS for one in means[links, words])) for links, own in cells.items()]
    over = [accpar / own for _, own, accpar in means.values()]
    return {
        "rows": [*rows, ("published", "", "", *PUBLISHED.values(), *PUBLISHED.values())],
        "where": "; ".join(where), "over": (min(over), max(over)), "kind": closest[1],
        "row": ", ".join(cells[closest[0]]), "least": min(ratios[closest]), "most": max(ratios[closest]),
    }  # fmt: skip


def between() -> kit.Result:
    value = {"0": 0.0, "b": 0.5, "ab": 0.25}
    known = kit.published("accpar", "between")
    rows = []
    for made, first in TYPES.items():
        for taken, second in TYPES.items():
            name = f"{first} to {second}"
            rows.append((name, *(value[word] for word in known[name]), *read.between(made, taken)))
    return {"rows": rows}


def inside() -> kit.Result:
    letters = {"gradient": "A(W)", "forward": "A(F_out)", "backward": "A(E_in)"}
    rows = [
        (kind, phase, letters[phase], part, part)
        for dim, kind in TYPES.items()
        for phase, part in read.inside(dim).items()
    ]
    return {"rows": rows}
