"""AccPar's networks, machines and plans, and their rows and bars in tables and figures.

Published numbers stand here to be printed beside ours; no computation reads them, except to find the bandwidth that
would give them, and the ratio of one to another.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from hypar.files.figures import Figure
from hypar.machine.load import load_machine
from hypar.machine.load_heterogeneous import load_heterogeneous
from hypar.machine.machine import Machine
from hypar.network.build import load_model
from hypar.plan.score import totals_of
from hypar.planning.planner import plan_model
from hypar.planning.replay import run_plan
from hypar.sharding.conventions import PAPER
from hypar.studies.page import geometric_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from hypar.machine.heterogeneous import HeterogeneousMachine
    from hypar.plan.plan import Plan

    Speeds = Mapping[str, Mapping[str, float]]
    """Speedups over dp, by strategy and network."""

NETWORKS = ("lenet-c", "alexnet", "vgg11", "vgg13", "vgg16", "vgg19", "resnet18", "resnet34", "resnet50")

HETEROGENEOUS, IDENTICAL = "tpu-v2-v3", "tpu-v3"

BATCH, LEVELS = 512, 8

PUBLISHED = {"owt": 2.98, "hypar": 3.78, "accpar": 6.30}
"""Average speedups over dp on the heterogeneous array, from a summary of the paper."""

MEANS: Mapping[str, Callable[[Mapping[str, float]], float]] = {
    "geometric": lambda speeds: geometric_mean(speeds.values()),
    "arithmetic": lambda speeds: math.fsum(speeds.values()) / len(speeds),
}
"""Means over the networks."""

TYPES = {"batch": "I", "in_channels": "II", "out_channels": "III"}


def identical_boards() -> Machine:
    """Return the identical boards with the peak that AccPar gives them, section 6; the machine's own is of another source."""
    return load_machine(IDENTICAL, {"compute.peak": "420 TFLOP/s"})


class Links(NamedTuple):
    """Other links for the heterogeneous boards.

    Attributes:
        inside: slowdown of the links inside each kind of boards.
        outward: slowdown of the links between the kinds.
        latency: whether a hop has a latency.
    """

    inside: int = 1
    outward: int = 1
    latency: bool = True

    @property
    def cells(self) -> tuple[str, str, str]:
        """Return the cells of a table row."""
        return f"1/{self.inside}", f"1/{self.outward}", "as assumed" if self.latency else "none"


class Runs:
    """Networks, machines and plans on heterogeneous boards, each made once."""

    def __init__(self) -> None:
        """Plan every network; only accpar needs the machine, the other strategies count bytes."""
        self.graphs = {name: load_model(name).with_batch(BATCH) for name in NETWORKS}
        self.heterogeneous, self.identical = load_heterogeneous(HETEROGENEOUS), identical_boards()
        self.plans = {
            (name, own): plan_model(graph, strategy=own, hardware=self.heterogeneous, convention=PAPER)
            for name, graph in self.graphs.items()
            for own in ("dp", *PUBLISHED)
        }
        self.speeds = over_dp({key: seconds(plan) for key, plan in self.plans.items()})

    def sharing(self, name: str, shares: str) -> Plan:
        """Return accpar's plan with another method for the shares."""
        return plan_model(
            self.graphs[name], strategy="accpar", shares=shares, hardware=self.heterogeneous, convention=PAPER
        )

    def linked(self, links: Links) -> Speeds:
        """Return the speedups with other links."""
        if links == Links():
            return self.speeds
        machine = relinked(self.heterogeneous, links)
        found = {
            (name, own): seconds(
                plan_model(self.graphs[name], strategy=own, hardware=machine, convention=PAPER)
            )
            if own == "accpar"
            else run_plan(plan, hardware=machine, model=self.graphs[name], convention=PAPER).timeline.makespan
            for (name, own), plan in self.plans.items()
        }
        return over_dp(found)


def relinked(base: HeterogeneousMachine, links: Links) -> HeterogeneousMachine:
    """Return the heterogeneous boards with other links."""
    groups = []
    for group in base.groups:
        assert isinstance(group.machine, Machine)  # noqa: S101 (both kinds are identical boards)
        (tier,) = group.machine.tiers
        changes = {
            "devices": group.num_devices,
            "link_bandwidth": f"{tier.bytes_per_s / links.inside} B/s",
            "latency": f"{tier.latency_s * links.latency} s",
            "compute.peak": f"{group.machine.compute.flop_per_s(1)} FLOP/s",
        }
        outward, latency = group.bytes_per_s / links.outward, group.latency_s * links.latency
        # Links as they were leave the machine, and so the plans inside it that are known.
        same = links.inside == 1 and links.latency
        machine = group.machine if same else load_machine(group.name, changes)
        groups.append(replace(group, machine=machine, bytes_per_s=outward, latency_s=latency))
    return replace(base, groups=tuple(groups))


def seconds(plan: Plan) -> float:
    """Return the time of a step on the machine that the plan was made for."""
    return totals_of(plan.score).time_s


def over_dp(times: Mapping[tuple[str, str], float]) -> Speeds:
    """Return the speedups over dp, by strategy and network."""
    found: dict[str, dict[str, float]] = {}
    for (name, own), time in times.items():
        if own != "dp":
            found.setdefault(own, {})[name] = times[name, "dp"] / time
    return found


def by_network(found: Speeds) -> Iterator[tuple[str, ...]]:
    """Yield a row for each network, then one for each mean."""
    for name in NETWORKS:
        yield (name, *(f"{speeds[name]:.2f}" for speeds in found.values()))
    for words, mean in MEANS.items():
        yield (f"{words} mean", *(f"{mean(speeds):.2f}" for speeds in found.values()))


def bars(title: str, found: Speeds) -> Figure:
    """Plot a bar for each network and strategy."""
    series = {own: [speeds[name] for name in NETWORKS] for own, speeds in found.items()}
    return Figure(title=title, x=list(NETWORKS), x_label="", y_label="times faster than dp", series=series)
