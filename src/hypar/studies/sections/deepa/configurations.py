"""DeePa's Figures 9 to 12: the configurations of each network, and their costs."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from hypar.files.figures import Figure
from hypar.sharding.dims import grid_word
from hypar.studies.page import Section
from hypar.studies.sections.deepa.networks import ALEXNET
from hypar.studies.sections.deepa.plans import EXACT, IMAGE, OWT, PUBLISHED, SERIAL, WAYS, Cut

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan
    from hypar.studies.sections.deepa.plans import Plans

ESTIMATED = Cut(name="deepa, paper", mode="paper")

OVER_TRICK = 2.3
"""Section 6: the time of AlexNet's step under owt over its time under DeePa."""

FIGURE_9 = (
    "Published: all convolutions and pools n16, fc1 c2, and by section 7.1.1 a small number of devices for the other"
    " linear layers, here two. The mode `serial` of the cost `deepa` finds just that. The search by the letter of"
    " Equation 1, `paper`, charges nothing between equal grids, so it cuts all layers of all networks in the channels: as"
    " the paper finds other choices, its own search must have charged something there."
)
FIGURE_10 = (
    "Published: linear layers like AlexNet's, and the last three convolutions h2 w2 on four devices; pools are taken as n16. The linear layers"
    " come out of `serial`; the four devices come out of no mode for the whole network. Table 3's costs give them,"
    " with a bandwidth that is not this machine's and a measured time of h2 w2 that is shorter than n4's, which no roofline"
    " gives."
)
FIGURE_11 = (
    "Published: a drawing; in words, the branches of InceptionE1 (`Mixed_7b`) have different choices. `serial` puts both"
    " last modules on half the devices, all branches alike: fewer workers for deeper layers, as section 7.1.1 says, but"
    " not branch by branch."
)
NETWORKS = {
    ALEXNET: ("Figure 9", FIGURE_9),
    "vgg16": ("Figure 10", FIGURE_10),
    "inception-v3": ("Figures 11 and 12", FIGURE_11),
}


def configuration(graph: LayerGraph, plans: Plans) -> Section:
    """Compare the choices of consecutive layers, published and ours, and plot the number of devices at work."""
    number, text = NETWORKS[graph.name]
    published = PUBLISHED.get(graph.name)
    cuts = (*([published] if published else []), SERIAL, EXACT, ESTIMATED)
    words = [words_of(plans.of(graph, cut), graph) for cut in cuts]
    if published is None:
        words.insert(0, ["only drawn"] * len(words[0]))
    layers = [layer.name for layer in graph.operators.layers]
    rows = []
    for same, run in groupby(zip(layers, zip(*words, strict=True), strict=True), key=lambda pair: pair[1]):
        names = [layer for layer, _ in run]
        rows.append((names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}", *same))
    return Section(
        title=f"{number}: configurations of {graph.name}",
        text=text,
        heads=("layers", "published", "serial", "exact", "paper"),
        rows=tuple(rows),
        figure=Figure(
            title=f"devices that work for each layer of {graph.name}", x=layers, x_label="", y_label="devices",
            series={cut.name: devices_of(plans.of(graph, cut), graph) for cut in cuts if cut is not ESTIMATED},
        ),
    )  # fmt: skip


def words_of(plan: Plan, graph: LayerGraph) -> list[str]:
    """Return the choice of every layer as DeePa writes it."""
    return [grid_word(plan.choices(layer.name)[0].as_degrees()) for layer in graph.operators.layers]


def devices_of(plan: Plan, graph: LayerGraph) -> list[float]:
    """Return the number of devices that work on every layer."""
    return [plan.choices(layer.name)[0].devices(WAYS) for layer in graph.operators.layers]


def costs(graphs: Mapping[str, LayerGraph], plans: Plans) -> Section:
    """Compare the costs of the configurations, with all bytes over one link and by the engine."""
    rows = []
    for name, graph in graphs.items():
        owt = seconds_of(graph, OWT, plans)
        for cut in (IMAGE, OWT, *((PUBLISHED[name],) if name in PUBLISHED else ()), SERIAL, EXACT):
            own = seconds_of(graph, cut, plans)
            claimed = f"{OVER_TRICK}" if cut is PUBLISHED[ALEXNET] else ""
            ratios = (f"{trick / seconds:.2f}" for trick, seconds in zip(owt, own, strict=True))
            rows.append((name, cut.name, *(f"{seconds * 1e3:.1f}" for seconds in own), claimed, *ratios))
    return Section(
        title="Figures 9 to 11: what the configurations cost",
        text=(
            "ms a step, with all bytes one after another over one link (`serial`), and by the engine, where devices"
            " receive at the same time; then how many times owt's step is longer. The published configurations are good only"
            " by the first count, which is how the paper adds up: AlexNet's is its optimum. By the engine it is slower than"
            " owt, and VGG-16's slower than image parallelism. VGG-16's is in neither count as good as with its"
            " convolutions all on n16."
        ),
        heads=("network", "cut", "serial", "engine", "owt over it, published", "serial", "engine"),
        rows=tuple(rows),
    )


def seconds_of(graph: LayerGraph, cut: Cut, plans: Plans) -> tuple[float, float]:
    """Return the seconds of a plan's choices, with all bytes over one link and by the engine."""
    plan = plans.of(graph, cut)
    names = [layer.name for layer in graph.operators.layers]
    held = tuple(f"{name}={word}" for name, word in zip(names, words_of(plan, graph), strict=True))
    serial = plans.of(graph, Cut(name=f"{cut.name}, held", mode="serial", pins=held))
    return serial.cost.value, plans.score(graph, cut).time_s
