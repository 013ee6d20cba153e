"""DeePa's motivation, layer by layer: Table 1, Figures 1 to 3."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from hypar.costs.base import load_cost
from hypar.files.figures import Figure
from hypar.machine.setting import degrees
from hypar.sharding.dims import grid_word
from hypar.sharding.levels import WHOLE_LAYER, levels_of
from hypar.sharding.placement import ALONE, Choice, cut
from hypar.sharding.space import parse_space
from hypar.studies.page import Section
from hypar.studies.sections.deepa.counting import READINGS, count_bytes
from hypar.studies.sections.deepa.networks import ALEXNET, BATCH
from hypar.studies.sections.deepa.plans import IMAGE, SPACE, WAYS, Cut

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.machine.machine import Machine
    from hypar.network.contraction import CutLayer
    from hypar.network.graph import LayerGraph
    from hypar.network.layer import Layer
    from hypar.studies.sections.deepa.plans import Plans

COUNTS = (1, 2, 4, 8, 16)
"""Numbers of devices."""

ALIKE = 1.005
"""The smallest speedup over the worst choice that does not print as 1.00."""

FACTOR = 12
"""Section 2.2: the reduction of traffic by cutting the channels of VGG-16's first linear layer on two GPUs."""

THIRD, LAST = "Conv2d_2b_3x3.conv", "fc"
FASTEST = {THIRD: 16, LAST: 4}
"""Section 2.3: the numbers of GPUs on which two layers of Inception-v3 are fastest."""


class Row(NamedTuple):
    """A row of Table 1.

    Attributes:
        sizes: input channels, output channels, height, width, and the kernel's side, as printed.
        model: the network.
        layers: the layers that the row describes.
    """

    sizes: tuple[int, ...]
    model: str
    layers: tuple[str, ...]


TABLE_1 = {
    "C1": Row((128, 128, 112, 112, 3), "vgg16", ("conv2_2",)),
    "C2": Row((512, 512, 28, 28, 3), "vgg16", ("conv4_1", "conv4_2", "conv4_3")),
    "C3": Row((192, 64, 35, 35, 1), "inception-v3", ("Mixed_5b.branch1x1.conv",)),
    "C4": Row((48, 64, 35, 35, 5), "inception-v3", ("Mixed_5b.branch5x5_2.conv",)),
    "C5": Row((64, 192, 27, 27, 5), ALEXNET, ("conv2",)),
    "C6": Row((256, 256, 13, 13, 3), ALEXNET, ("conv5",)),
    "C7": Row((32, 64, 147, 147, 3), "inception-v3", ("Conv2d_2b_3x3.conv",)),
    "C8": Row((448, 384, 8, 8, 3), "inception-v3", ("Mixed_7b.branch3x3dbl_2.conv",)),
}


def table_1(graphs: Mapping[str, LayerGraph]) -> Section:
    """Compare the shapes of Table 1 with those of the model files."""
    rows = []
    for name, row in TABLE_1.items():
        layers = {layer.name: layer for layer in graphs[row.model].layers}
        rows += [
            (name, row.model, layer, _sizes(row.sizes), _sizes(shape_of(layers[layer])))
            for layer in row.layers
        ]
    return Section(
        title="Table 1: convolutions of Figures 1 and 2",
        text=(
            "Input and output channels, height, width, kernel. C5 and C6 are of the AlexNet of Krizhevsky (2014), whose"
            f" first, second and fourth convolutions are narrower than those of the model file `alexnet`; here it is"
            f" `{ALEXNET}`. C2 is said to be VGG-16's Conv8, Conv9 and Conv10, but Conv8 reads 256 channels."
        ),
        heads=("row", "network", "layer", "published", "ours"),
        rows=tuple(rows),
    )


def shape_of(layer: Layer) -> tuple[int, ...]:
    """Return the sizes of a convolution that Table 1 lists."""
    read = layer.input_shapes[0]
    kernel = max(layer.op.model_dump()["kernel"])
    return read["channels"], layer.shape["channels"], layer.shape["height"], layer.shape["width"], kernel


def _sizes(sizes: tuple[int, ...]) -> str:
    channels, out, height, width, kernel = sizes
    return f"{channels} to {out}, {height}x{width}, {kernel}x{kernel}"


def figure_1(graphs: Mapping[str, LayerGraph], machine: Machine) -> Section:
    """Compare the speed of the convolutions of Table 1 under each choice."""
    rows = []
    series: dict[str, list[float]] = {"worst": [], "image": [], "best": []}
    for name, row in TABLE_1.items():
        layers = {layer.name: layer for layer in graphs[row.model].operators.layers}
        seconds = computing(layers[row.layers[-1]], machine)
        worst, best = (pick(seconds, key=seconds.__getitem__) for pick in (max, min))
        image = cut("batch", WAYS)
        speeds = [seconds[worst] / seconds[choice] for choice in (worst, image, best)]
        for key, speed in zip(series, speeds, strict=True):
            series[key].append(speed)
        words = [grid_word(choice.as_degrees()) for choice in (worst, best)]
        alike = speeds[2] < ALIKE
        rows.append((
            name, *(("all alike", "all alike") if alike else words), f"{speeds[1]:.2f}", f"{speeds[2]:.2f}",
        ))  # fmt: skip
    return Section(
        title="Figure 1: speed of convolutions by choice",
        text=(
            f"Throughput of computation alone, over that of the worst choice, with batch {BATCH} on all {WAYS} devices;"
            " the paper prints neither its batch nor how many devices it took. Published in words: choices differ much,"
            " and image parallelism is generally not the best. The first comes out for most layers, the second for none:"
            " by the roofline of the machine's file a choice costs more where its pieces are uneven or read"
            " more for what they compute, and an even batch is always among the best. The paper's bars are measured with"
            " cuDNN, whose choice of kernels for a shape no file here describes; `hypar profile` measures it where"
            " there is a GPU."
        ),
        heads=("layer", "worst choice", "best choice", "image over worst", "best over worst"),
        rows=tuple(rows),
        figure=Figure(
            title="speed over the worst choice", x=list(TABLE_1), x_label="", y_label="times the worst",
            series=series,
        ),
    )  # fmt: skip


def computing(layer: CutLayer, machine: Machine) -> dict[Choice, float]:
    """Return the seconds of a device for a layer's three phases, for each choice of all devices."""
    options = parse_space(SPACE).choices(layer, WAYS, idle=True)
    return {
        choice: math.fsum(machine.layer_time(layer.einsum, degrees((choice,)), 4).seconds.values())
        for choice in options
        if choice.devices(WAYS) == WAYS
    }


def figure_2(graph: LayerGraph, machine: Machine) -> Section:
    """Compare the times of three layers of Inception-v3 under image parallelism on increasing numbers of devices."""
    weighted = [layer for layer in graph.operators.layers if layer.weighted]
    middle = weighted[len(weighted) // 2].name
    rows, series = [], {}
    for name in (THIRD, middle, LAST):
        for mode, words in (("exact", "by the engine"), ("paper", "as estimated")):
            times = on_devices(graph, name, machine, mode)
            series[f"{name}, {words}"] = [seconds * 1e3 for seconds in times.values()]
            best = min(times, key=times.__getitem__)
            published = str(FASTEST[name]) if name in FASTEST else "not said"
            cells = (f"{seconds * 1e3:.2f}" for seconds in times.values())
            rows.append((name, words, *cells, published, str(best)))
    return Section(
        title="Figure 2: layers of inception-v3 on 1 to 16 devices",
        text=(
            f"ms to compute a layer and to exchange its gradients, batch {BATCH}, cut in the batch: by the engine, and by"
            " the paper's own estimates C over the devices plus R times W, both on this machine. The paper's figure is"
            " measured and prints no number; said is on how many GPUs two of the layers are fastest, and not which the"
            " layer between is: here it is that in the middle. By the engine both come out as published, the last one"
            " because NVLink joins four devices here and InfiniBand more, which the paper's K80 node has not. By the"
            " estimates, whose updates grow with every device, the last layer is fastest on one."
        ),
        heads=("layer", "counted", *(f"{count} device{'s' * (count > 1)}" for count in COUNTS),
               "fastest on, published", "ours"),
        rows=tuple(rows),
        figure=Figure(
            title="computation and exchange of gradients", x=[str(count) for count in COUNTS], x_label="devices",
            y_label="ms", series=series, kind="lines", log=True,
        ),
    )  # fmt: skip


def on_devices(graph: LayerGraph, name: str, machine: Machine, mode: str) -> dict[int, float]:
    """Return the seconds of a layer that is cut in the batch over each number in ``COUNTS`` of devices."""
    layer = next(layer for layer in graph.operators.layers if layer.name == name)
    cost = load_cost("deepa", {"mode": mode}, {"machine": machine, "optimizer": "sgd"})
    found = {}
    for count in COUNTS:
        # One device is a level of two of which one works.
        (level,) = levels_of((max(count, 2),), graph.element_bytes)
        choice = ALONE if count == 1 else cut("batch", count)
        items = cost.layer_costs(level, layer, (choice,), WHOLE_LAYER)
        found[count] = math.fsum(float(costs.sum()) for costs in items.values())
    return found


def figure_3(graph: LayerGraph, plans: Plans) -> Section:
    """Compare the traffic of VGG-16's first linear layer on two devices, cut in the batch and in the channels."""
    channels = Cut(name="channels", pins=("*=n2", "fc1=c2"))
    found = [
        count_bytes(plans.of(graph, way, 2), graph, plans.machine, lambda name: name == "fc1")
        for way in (IMAGE, channels)
    ]
    rows = []
    for name, reading in READINGS.items():
        image, other = map(reading, found)
        factor = image / other
        rows.append((
            name, f"{image / 1e6:,.1f}", f"{other / 1e6:,.1f}", f"{FACTOR}", f"{factor:.1f}",
            f"{factor / FACTOR * graph.batch:,.0f}",
        ))  # fmt: skip
    return Section(
        title="Figure 3: the first linear layer of vgg16 on two devices",
        text=(
            f"MB that both devices receive, batch {graph.batch}; the counts are those of Figure 8. Section 2.2 publishes a"
            f" factor of {FACTOR} and no batch. The weight's bytes do not depend on the batch and the input's grow with"
            " it, so each count gives the factor at one batch, that of the last column; none of them is one that the"
            " paper names."
        ),
        heads=("counted", "image", "channels", "factor, published", "ours", "batch for the published factor"),
        rows=tuple(rows),
    )
