"""HyPar's Figures 5, 9 and 10: its plans, and the points around two of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.studies.exploration import Exploration, Point, explore_model
from hypar.studies.page import Section, beside
from hypar.studies.sections.hypar.networks import LARGE, LEVELS, NETWORKS, PLANS, SPEED

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypar.studies.evaluation import Evaluation


def figure_5(ran: Evaluation) -> Section:
    """Show the plans."""
    rows = []
    for name in NETWORKS:
        plan = ran.plans[name, "hypar"]
        codes = [
            "".join("01"[split.dim(layer) == "in_channels"] for layer in plan.layers) for split in plan.splits
        ]
        rows.append((name, *codes, PLANS.get(name, "")))
    both = sum(len(set("".join(row[1:-1]))) == 2 for row in rows)
    return Section(
        title="Figure 5: the plans",
        text=(
            "Layers in order, 0 for dp and 1 for mp. The paper's text states those in the last column, and of VGG-A that"
            " fc1, its ninth layer, is mp at every level and conv5_2, its eighth, dp, dp, dp, mp: all as here. It says besides"
            " that the large networks have convolutions mostly dp and fully connected layers mostly mp, here"
            f" {usual(ran, 'conv', 'batch'):.0%} and {usual(ran, 'linear', 'in_channels'):.0%} of their choices, and that all"
            f" networks but SCONV have both: here {both} of {len(NETWORKS)} have. With"
            f" `--inter-weight 1`, what is moved, the plans of {', '.join(differing(ran))} are others."
        ),
        heads=("network", "H1", "H2", "H3", "H4", "published"),
        rows=tuple(rows),
    )


def usual(ran: Evaluation, op_name: str, dim: str) -> float:
    """Return the fraction of the choices for some op's layers, on the large networks, that divide a dim."""
    dims = [
        own
        for name in LARGE
        for layer in ran.graphs[name].contracted.layers
        if layer.op_name == op_name
        for own in ran.plans[name, "hypar"].dims(layer.name)
    ]
    return dims.count(dim) / len(dims)


def differing(ran: Evaluation) -> list[str]:
    """Return the networks whose plan changes if communication between layers counts in full."""
    full = ran.weighing(1.0)
    return [name for name in NETWORKS if full.splits(name, "hypar") != ran.splits(name, "hypar")]


def figure_9(ran: Evaluation) -> Section:
    """Explore the space of Lenet-c with H2 and H3 fixed."""
    found = explored(ran, "lenet-c", ("*@H1", "*@H4"))
    best = found.ranked()[0]
    return Section(
        title="Figure 9: the space of Lenet-c",
        text=(
            f"H2 and H3 as HyPar has them, H1 and H4 free: {len(found.points)} points instead of 256, as conv1 reads one"
            " channel and so has nothing to cut but the batch. The published peak is at H1 = H4 = 0011, HyPar's own plan."
        ),
        heads=("point", "published", "ours", "ratio"),
        rows=(
            (f"peak, H1 H4 = {code(found, best)}", *beside(SPEED["lenet-c"], found.speedup(best))),
            *_rows_where(found, lambda point: point.own, "HyPar's plan", SPEED["lenet-c"]),
        ),
        figure=found.figure("Lenet-c: H1 and H4 free"),
    )


def figure_10(ran: Evaluation) -> Section:
    """Explore the space of VGG-A with all but two layers fixed."""
    found = explored(ran, "vgg-a", ("conv5_2", "fc1"))
    best = found.ranked()[0]
    return Section(
        title="Figure 10: the space of VGG-A",
        text=(
            f"conv5_2 and fc1 free, all else as HyPar has it: {len(found.points)} points. Published is a peak of"
            f" {SPEED['peak of vgg-a']} at conv5_2 = 1000, fc1 = 1111, above HyPar's own plan, {SPEED['vgg-a']}. Here too"
            " HyPar's plan is not the fastest: mp of conv5_2 at one level is nearly as good as dp, and bytes between layers"
            " count in full in the engine's time. At which level it is makes no difference here: where tensors double, so"
            " do bandwidths."
        ),
        heads=("point", "published", "ours", "ratio"),
        rows=(
            (
                f"peak, conv5_2 fc1 = {code(found, best)}",
                *beside(SPEED["peak of vgg-a"], found.speedup(best), 3),
            ),
            *_rows_where(
                found,
                lambda point: code(found, point) == "1000 1111",
                "published peak",
                SPEED["peak of vgg-a"],
                3,
            ),
            *_rows_where(found, lambda point: point.own, "HyPar's plan", SPEED["vgg-a"], 3),
        ),
        figure=found.figure("VGG-A: conv5_2 and fc1 free"),
    )


def explored(ran: Evaluation, name: str, vary: tuple[str, ...], convention: str | None = None) -> Exploration:
    """Explore some choices of HyPar's plan of a network, counted by another convention if one is given."""
    return explore_model(
        ran.graphs[name], vary=vary, hardware=ran.hardware, levels=LEVELS,
        inter_weight=ran.inter_weight, convention=convention or ran.convention,
    )  # fmt: skip


def code(found: Exploration, point: Point) -> str:
    """Return the free choices as 0 for dp and 1 for mp, in groups of one digit per level."""
    text = "".join("01"["in_channels" in choice.divided] for choice in point.choices)
    width = len(found.plan.array)
    return " ".join(text[start : start + width] for start in range(0, len(text), width))


def _rows_where(
    found: Exploration, wanted: Callable[[Point], bool], words: str, published: float, digits: int = 2
) -> tuple[tuple[str, ...], ...]:
    """Return rows for some of the points."""
    return tuple(
        (f"{words}, {code(found, point)}", *beside(published, found.speedup(point), digits))
        for point in found.points
        if wanted(point)
    )
