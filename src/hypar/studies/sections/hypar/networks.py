"""The ten networks of HyPar's evaluation, their published results, and their rows and bars in tables and figures.

Published numbers stand here to be printed beside ours; no computation reads them, except for the engine's results with
published bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.files.figures import Figure
from hypar.studies.page import geometric_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

NETWORKS = ("sfc", "sconv", "lenet-c", "cifar-c", "alexnet", "vgg-a", "vgg-b", "vgg-c", "vgg-d", "vgg-e")

LEVELS = 4

HALF = 0.5
"""The weight, in the paper's figures, of a byte between layers relative to one inside."""

EIGHT = tuple(name for name in NETWORKS if name not in {"sfc", "sconv"})

LARGE = tuple(name for name in NETWORKS if name.startswith(("alexnet", "vgg")))
TORUS = {"topology": {"name": "torus", "routing": "balanced"}}

ORDERED = {"topology": {"name": "torus", "routing": "dimension_ordered"}}

SPEED = {
    "mean": 3.39, "sfc": 23.48, "mp on sfc": 22.19, "sconv": 1.0, "lenet-c": 3.05, "vgg-a": 4.97,
    "least": 1.23, "most": 4.97, "torus": 2.23, "peak of vgg-a": 5.05,
}  # fmt: skip

ENERGY = {"mean": 1.51, "sfc": 10.27, "mp on sfc": 9.96, "sconv": 1.0, "least": 1.03, "most": 1.81}

GIGABYTES = {("sfc", "mp"): 0.723, ("sfc", "hypar"): 0.681, ("mean", "mp"): 8.88, ("mean", "hypar"): 0.318}
PLANS = {
    "sfc": "1111 1111 0111 1111",
    "sconv": "0000 0000 0000 0000",
    "lenet-c": "0011 ? ? 0011",
}
"""Published: Figures 5 to 8, 10 and 12, relative to dp; least and most are over the networks without SFC and SCONV.
Plans as 0 for dp and 1 for mp, levels outermost first."""


def bars(title: str, label: str, series: Mapping[str, Mapping[str, float]], *, log: bool) -> Figure:
    """Plot a bar for each network, or a point if the values span decades."""
    return Figure(
        title=title, x=list(NETWORKS), x_label="", y_label=label, log=log, kind="points" if log else "bars",
        series={name: [values.get(network) for network in NETWORKS] for name, values in series.items()},
    )  # fmt: skip


def per_network(
    mp: Mapping[str, float], ours: Mapping[str, float], published: Mapping[str, float]
) -> tuple[tuple[str, ...], ...]:
    """Return a row for each network and one for the mean."""
    rows = [
        (name, f"{mp[name]:.2f}", f"{ours[name]:.2f}")
        + (
            (f"{published[name]:.2f}", f"{ours[name] / published[name]:.2f}")
            if name in published
            else ("", "")
        )
        for name in NETWORKS
    ]
    own, mean = geometric_mean(ours.values()), published["mean"]
    last = ("mean", f"{geometric_mean(mp.values()):.2f}", f"{own:.2f}", f"{mean:.2f}", f"{own / mean:.2f}")
    return (*rows, last)
