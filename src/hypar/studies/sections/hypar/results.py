"""HyPar's headline numbers, and its Figures 6 and 7: performance and energy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.studies.evaluation import savings, speedups
from hypar.studies.page import Section, beside, geometric_mean
from hypar.studies.sections.hypar.networks import (
    EIGHT,
    ENERGY,
    LEVELS,
    NETWORKS,
    SPEED,
    TORUS,
    bars,
    per_network,
)

if TYPE_CHECKING:
    from hypar.network.graph import LayerGraph
    from hypar.studies.evaluation import Evaluation


def summary(ran: Evaluation) -> Section:
    """Compare the headline numbers."""
    speed, energy = speedups(ran.base), savings(ran.base)
    mp_speed, mp_energy = speedups(ran.base, "mp"), savings(ran.base, "mp")
    torus = ran.scores(TORUS)
    over_torus = {name: ran.base[name, "dp"].time_s / torus[name, "hypar"].time_s for name in NETWORKS}
    least, most = (pick(EIGHT, key=speed.__getitem__) for pick in (min, max))
    thrifty, greedy = (pick(EIGHT, key=energy.__getitem__) for pick in (min, max))
    bytes_say = {name: _bound(ran, name) for name in ("sfc", "lenet-c", least)}
    lead = "; see Figure 8 fused"
    mean_torus = geometric_mean(over_torus.values())
    rows = (
        ("performance, mean of ten", SPEED["mean"], geometric_mean(speed.values()), "", ""),
        ("performance, SFC", SPEED["sfc"], speed["sfc"], "", bytes_say["sfc"] + lead),
        ("performance, mp on SFC", SPEED["mp on sfc"], mp_speed["sfc"], "", _bound(ran, "sfc", "mp") + lead),
        ("performance, SCONV", SPEED["sconv"], speed["sconv"], "", "the plans are the same"),
        ("performance, Lenet-c", SPEED["lenet-c"], speed["lenet-c"], "", bytes_say["lenet-c"]),
        ("performance, VGG-A", SPEED["vgg-a"], speed["vgg-a"], "", ""),
        (
            "performance, least of the other eight",
            SPEED["least"],
            speed[least],
            least,
            bytes_say[least] + lead,
        ),
        ("performance, most of the other eight", SPEED["most"], speed[most], most, "see Figure 6"),
        ("energy, mean of ten", ENERGY["mean"], geometric_mean(energy.values()), "", ""),
        (
            "energy, SFC",
            ENERGY["sfc"],
            energy["sfc"],
            "",
            "more with more accesses a word moved, see Assumptions",
        ),
        ("energy, mp on SFC", ENERGY["mp on sfc"], mp_energy["sfc"], "", "as SFC"),
        ("energy, least of the other eight", ENERGY["least"], energy[thrifty], thrifty, ""),
        ("energy, most of the other eight", ENERGY["most"], energy[greedy], greedy, "see Figure 7"),
        ("performance on a torus, mean", SPEED["torus"], mean_torus, "", "over dp on the H-tree"),
    )
    return Section(
        title="Summary",
        text="The ratio is ours over published.",
        heads=("", "published", "ours", "ratio", "network", "reason"),
        rows=tuple((what, *beside(published, ours), name, why) for what, published, ours, name, why in rows),
    )


def _bound(ran: Evaluation, name: str, strategy: str = "hypar") -> str:
    """State the ratio of dp's communication time to the strategy's: no speed of computation gives a greater speedup."""
    spent = [ran.score(name, named).time["communication"] for named in ("dp", strategy)]
    return f"communication alone gives {spent[0] / spent[1]:.2f}"


def figure_6(ran: Evaluation) -> Section:
    """Compare the performance of the ten networks."""
    mp, ours = speedups(ran.base, "mp"), speedups(ran.base)
    weights, work = linear_share(ran.graphs["alexnet"])
    sent = {name: communicating(ran, name, "dp") for name in ("alexnet", "sfc")}
    return Section(
        title="Figure 6: performance",
        text=(
            f"mp is slower than dp everywhere but on SFC, published as {SPEED['mp on sfc']} times faster. AlexNet comes"
            f" out above the published most, {SPEED['most']}: its linear layers have {weights:.0%} of its weights and"
            f" {work:.0%} of its work, so dp spends {sent['alexnet']:.0%} of the step on gradients most of which HyPar"
            " does not send. Decisions that bring it down, slower units above all, bring VGG-A and the mean down with it,"
            f" see Assumptions. SFC falls short: dp communicates for {sent['sfc']:.1%} of the step there and HyPar for"
            f" {communicating(ran, 'sfc', 'hypar'):.1%}, so the ratio is that of their bytes over the levels' bandwidths,"
            " which no decision raises by much; another count of the bytes does, see Figure 8 fused."
        ),
        heads=("network", "mp", "HyPar", "published", "ratio"),
        rows=per_network(mp, ours, SPEED),
        figure=bars(
            "Performance over dp",
            "times faster than dp",
            {"mp": mp, "HyPar": ours, "HyPar, published": SPEED},
            log=True,
        ),
    )


def communicating(ran: Evaluation, name: str, strategy: str) -> float:
    """Return the fraction of a step spent on communication."""
    score = ran.score(name, strategy)
    return score.time["communication"] / score.time_s


def linear_share(graph: LayerGraph) -> tuple[float, float]:
    """Return the fractions of a network's weights and of its multiply-accumulates in linear layers."""
    linear = [layer for layer in graph.layers if layer.op_name == "linear"]
    weights = sum(layer.num_parameters for layer in linear) / graph.num_parameters
    return weights, sum(layer.macs() for layer in linear) / graph.macs()


def figure_7(ran: Evaluation) -> Section:
    """Compare the energy of the ten networks."""
    mp, ours = savings(ran.base, "mp"), savings(ran.base)
    saved = {name: saved_by_item(ran, name) for name in ("lenet-c", "alexnet")}
    samples = ran.graphs["alexnet"].batch // 2**LEVELS
    return Section(
        title="Figure 7: energy",
        text=(
            "Energy of dp over that of the plan: operations, accesses to the buffer and to DRAM, and two DRAM accesses"
            " for each word moved, at the paper's energies. The registers of the processing elements have no published"
            f" energy and count as nothing. Lenet-c and AlexNet save more than the published most, {ENERGY['most']}: under"
            f" dp each device reads and writes all weights of their linear layers in DRAM, for {samples} samples each. Of what"
            f" HyPar saves there, {saved['lenet-c']['memory']:.0%} and {saved['alexnet']['memory']:.0%} are such accesses,"
            f" {saved['lenet-c']['communication']:.0%} and {saved['alexnet']['communication']:.0%} are words not moved."
        ),
        heads=("network", "mp", "HyPar", "published", "ratio"),
        rows=per_network(mp, ours, ENERGY),
        figure=bars(
            "Energy saved over dp",
            "dp's energy over it",
            {"mp": mp, "HyPar": ours, "HyPar, published": ENERGY},
            log=True,
        ),
    )


def saved_by_item(ran: Evaluation, name: str) -> dict[str, float]:
    """Return each item's fraction of the energy that HyPar saves over dp."""
    before, after = (ran.score(name, strategy).energy or {} for strategy in ("dp", "hypar"))
    saved = {item: before[item] - after[item] for item in before}
    return {item: amount / sum(saved.values()) for item, amount in saved.items()}
