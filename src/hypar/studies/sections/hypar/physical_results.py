"""HyPar's Figures 6 and 7 on ``hmc-physical``: performance and energy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.sharding.conventions import MOVED
from hypar.studies.evaluation import savings, speedups
from hypar.studies.page import Section, geometric_mean
from hypar.studies.sections.hypar.networks import NETWORKS, bars
from hypar.studies.sections.hypar.results import saved_by_item

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.studies.sections.hypar.physical import Both


def figures_6_and_7(ran: Both) -> Section:
    """Compare performance and energy of the ten networks on both machines."""
    counted = ran.same.scores({}, convention=MOVED)
    kinds = (ran.published.base, ran.same.base, counted, ran.moved.base)
    speed, energy = [speedups(each) for each in kinds], [savings(each) for each in kinds]
    rows = [(name, *(f"{values[name]:.2f}" for values in (*speed, *energy))) for name in NETWORKS]
    means = [geometric_mean(values.values()) for values in (*speed, *energy)]
    apart = max(abs(speed[1][name] / speed[0][name] - 1) for name in NETWORKS)
    saved = saved_by_item(ran.same, "vgg-a")
    mp = [name for name, ratio in speedups(ran.same.base, "mp").items() if ratio >= 1]
    heads = ("hmc", "physical", "moved", "searched")
    return Section(
        title="Figures 6 and 7 on hmc-physical: performance and energy",
        text=(
            "HyPar over dp, in performance and in energy: on `hmc` as above; on `hmc-physical` with the same plans and the"
            " paper's count (physical); with the same plans and what a correct execution moves (moved); with what HyPar's search"
            " finds for that count, where bytes between layers weigh in full (searched). The machine alone changes no performance"
            f" by more than {apart:.1%}, and mp is faster than dp on {', '.join(mp)} alone. dp's energy over"
            f" HyPar's is {means[5] / means[4]:.2f} times that on `hmc`, on the mean: {saved['static']:.1%} of what HyPar saves on"
            " VGG-A is drawn at rest, while dp communicates. What moves is more than the paper's count where a tensor"
            " is whole inside a group and an outer level brings new parts of it, and where a pool reduces partial sums;"
            f" the search for what moves makes {_faster(speed[2], speed[3])} faster again."
        ),
        heads=(
            "network",
            *(f"performance, {head}" for head in heads),
            *(f"energy, {head}" for head in heads),
        ),
        rows=(*rows, ("mean", *(f"{mean:.2f}" for mean in means))),
        figure=bars(
            "HyPar over dp on both machines",
            "dp over HyPar",
            {
                "performance, hmc": speed[0], "performance, hmc-physical": speed[1],
                "energy, hmc": energy[0], "energy, hmc-physical": energy[1],
            },
            log=True,
        ),
    )  # fmt: skip


def _faster(before: Mapping[str, float], after: Mapping[str, float]) -> str:
    """Name the networks that are faster after than before."""
    return ", ".join(name for name in before if after[name] > before[name] * (1 + 1e-3)) or "none"
