"""DeePa's throughput: Figures 7, 13 and 14, and the times of Figures 15 and 16."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.files.figures import Figure
from hypar.network.training import PHASES
from hypar.studies.page import Section
from hypar.studies.sections.deepa.layers import COUNTS
from hypar.studies.sections.deepa.networks import BATCH, CLASSES_22K, networks
from hypar.studies.sections.deepa.plans import EXACT, IMAGE, OWT, SERIAL, WAYS
from hypar.studies.sections.deepa.transfers import TIMELINE, TIMELINE_BATCH, TIMELINE_WAYS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.network.graph import LayerGraph
    from hypar.studies.sections.deepa.plans import Plans

TRICK = (1.4, 1.2, 1.07)
"""Figure 7: owt over image parallelism, both of DeePa, for the three networks."""

FASTER = (6.5, 1.9, 1.5)
"""Figure 7: DeePa over the better of TensorFlow and PyTorch."""

OVERLAP = (10, 30)
"""Section 7.1: percent by which overlap improves throughput."""

BATCHES = (256, 512, 1024, 2048)
BY_BATCH = ((4.6, 6.5), (1.6, 1.9), (1.2, 1.5))
"""Figure 13: DeePa over TensorFlow and PyTorch, least and most over the mini-batches."""

K80_GB = 12
"""Memory of one of the two GPUs of a Tesla K80 (its datasheet)."""

ONE_NODE, FOUR_NODES = (3.1, 1.6, 1.3), (8.1, 3.2, 1.8)
"""Figure 14: DeePa over TensorFlow and PyTorch on 4 GPUs of one node and on 16 of four."""

STEP_S = {IMAGE: 0.34, TIMELINE: 0.24}
"""Figure 15: seconds of a step."""

FALLS, FALLS_OWN = (20, 45), 3
"""A.4: percent of throughput lost with 21,841 classes by PyTorch and TensorFlow, and by DeePa."""

THREE = (IMAGE, OWT, EXACT)


def figure_7(graphs: Mapping[str, LayerGraph], plain: Plans, beside: Plans) -> Section:
    """Compare the throughput on 16 devices, with transfers after and beside computation."""
    rows: list[tuple[str, ...]] = []
    series: dict[str, list[float]] = {cut.name: [] for cut in (*THREE, SERIAL)}
    for (name, graph), trick, faster in zip(graphs.items(), TRICK, FASTER, strict=True):
        speeds = {cut: (plain.speed(graph, cut), beside.speed(graph, cut)) for cut in (*THREE, SERIAL)}
        for cut, (_, speed) in speeds.items():
            series[cut.name].append(speed)
        image, owt, own = (speeds[cut][1] for cut in THREE)
        rows += [
            (name, cut.name, f"{alone:,.0f}", f"{together:,.0f}", f"{100 * (together / alone - 1):.0f}%", *ratio)
            for (cut, (alone, together)), ratio in zip(
                speeds.items(),
                (("", ""), (f"{trick}", f"{owt / image:.2f}"), (f"{faster}", f"{own / image:.2f}"), ("", "")),
                strict=True,
            )
        ]  # fmt: skip
    return Section(
        title="Figure 7: images a second on 16 devices",
        text=(
            f"Batch {BATCH}: by the engine, with transfers after computation, and with those that nothing waits for beside"
            f" it, which the paper measured to be {OVERLAP[0]} to {OVERLAP[1]} % faster. Over image parallelism, with"
            " overlap: published for owt is DeePa's own image parallelism, for DeePa the better of TensorFlow and"
            " PyTorch, whose parameter servers in the memory of the host are in no count of ours; section 7.1 calls the"
            " two alike. The paper's 16 K80 share one node's links, ours are four nodes of P100, so the ratios are"
            " of another machine. By the engine owt is close to the best, and the plan of `serial`, for AlexNet the"
            " published configuration, is slower."
        ),
        heads=("network", "cut", "after", "beside", "gain", "over image, published", "ours"),
        rows=tuple(rows),
        figure=Figure(
            title="images a second on 16 devices, transfers beside computation", x=list(graphs), x_label="",
            y_label="images a second", series=series, kind="points", log=True,
        ),
    )  # fmt: skip


def figure_13(graphs: Mapping[str, LayerGraph], beside: Plans) -> Section:
    """Compare the throughput on 16 devices for several mini-batches."""
    rows, series = [], {}
    for (name, graph), (least, most) in zip(graphs.items(), BY_BATCH, strict=True):
        sized = [graph.with_batch(batch) for batch in BATCHES]
        for cut in THREE:
            series[f"{name}, {cut.name}"] = [beside.speed(one, cut) for one in sized]
        ratios = [beside.speed(one, EXACT) / beside.speed(one, IMAGE) for one in sized]
        held = [beside.held_bytes(one, IMAGE) / 1e9 for one in sized]
        rows.append((
            name, f"{least} to {most}", *(f"{ratio:.2f}" for ratio in ratios), *(f"{own:.1f}" for own in held),
        ))  # fmt: skip
    return Section(
        title="Figure 13: by mini-batch",
        text=(
            "DeePa over image parallelism on 16 devices, with overlap, and GB that a device holds under image parallelism;"
            " published are DeePa over TensorFlow and PyTorch, least and most, at mini-batches that the figure alone has."
            " Said to be constant; by the engine the factor falls with the batch, as the exchange of the weights, which"
            " DeePa saves, does not grow with it; below 1 it is as the plan is the least without overlap. VGG-16 and Inception-v3 did not fit at 2048 there, in"
            f" {K80_GB} GB a GPU; ours hold less, as only what the backward phase reads is counted, once, and no"
            " work space of kernels."
        ),
        heads=("network", "published", *(f"batch {batch}" for batch in BATCHES),
               *(f"GB at {batch}" for batch in BATCHES)),
        rows=tuple(rows),
        figure=Figure(
            title="images a second on 16 devices", x=[str(batch) for batch in BATCHES], x_label="mini-batch",
            y_label="images a second", series=series, kind="lines", log=True,
        ),
    )  # fmt: skip


def figure_14(graphs: Mapping[str, LayerGraph], plans: Plans) -> Section:
    """Compare images a second as the number of devices grows with the batch."""
    rows, series = [], {}
    four, sixteen = COUNTS.index(4), COUNTS.index(16)
    for (name, graph), one, nodes in zip(graphs.items(), ONE_NODE, FOUR_NODES, strict=True):
        image: list[float] = []
        for cut in THREE:
            speeds = [plans.speed(graph.with_batch(BATCH // WAYS * count), cut, count) for count in COUNTS]
            image = image or speeds
            series[f"{name}, {cut.name}"] = speeds
            own = cut is EXACT
            rows.append((
                name, cut.name, *(f"{speed:,.0f}" for speed in speeds), f"{speeds[-1] / speeds[0]:.2f}",
                f"{one}" if own else "", f"{speeds[four] / image[four]:.2f}",
                f"{nodes}" if own else "", f"{speeds[sixteen] / image[sixteen]:.2f}",
            ))  # fmt: skip
    return Section(
        title="Figure 14: images a second, weak scaling",
        text=(
            f"{BATCH // WAYS} images a device: by the engine, with overlap as the paper has it, from the published peak of"
            " the devices at an assumed efficiency. The paper's own throughputs are measured, with kernels and libraries"
            " that no file here describes, so none stands beside these; what compares is how the three scale, and DeePa"
            " over image parallelism: published is DeePa over TensorFlow and PyTorch, whose gradients go"
            " through the memory of the host, where ours go from GPU to GPU. A node has four devices: from eight on,"
            " InfiniBand joins the nodes, by one port of each, which its devices share."
        ),
        heads=("network", "cut", *(f"{count} device{'s' * (count > 1)}" for count in COUNTS), "16 over 1",
               "over image on 4, published", "ours", "on 16, published", "ours"),
        rows=tuple(rows),
        figure=Figure(
            title="images a second", x=[str(count) for count in COUNTS], x_label="devices", y_label="images a second",
            series=series, kind="lines", log=True,
        ),
    )  # fmt: skip


def figure_15_times(graph: LayerGraph, plain: Plans, beside: Plans) -> Section:
    """Compare the seconds of a step of VGG-16 on four devices."""
    small = graph.with_batch(TIMELINE_BATCH)
    flop = sum(
        layer.einsum.flop(phase) for layer in small.operators.layers if layer.weighted for phase in PHASES
    )
    rows = [
        (cut.name, f"{published:.2f}", *(f"{plans.score(small, cut, TIMELINE_WAYS).time_s:.3f}" for plans in (plain, beside)))
        for cut, published in STEP_S.items()
    ]  # fmt: skip
    return Section(
        title="Figure 15: seconds of vgg16 on four devices",
        text=(
            f"A step, batch {TIMELINE_BATCH}: with transfers after computation, and beside it, as the paper has it. By the"
            " engine gradients go over NVLink beside the backward phase, so image parallelism loses little and the"
            " published configuration, whose linear layers leave two devices idle, gains nothing; the paper's image"
            " parallelism waits for 4 GB between iterations. The published step of DeePa computes at"
            f" {flop / TIMELINE_WAYS / STEP_S[TIMELINE] / 1e12:.1f} TFLOP/s a GPU, at an assumed efficiency ours do"
            f" {plain.machine.flop_per_s / 1e12:.1f}: its kernels take fewer operations than a direct convolution."
        ),
        heads=("configuration", "published", "after", "beside"),
        rows=tuple(rows),
    )


def figure_16_speeds(graphs: Mapping[str, LayerGraph], beside: Plans) -> Section:
    """Compare the throughput lost with the classes of ImageNet-22K."""
    rows = []
    for name, large in networks(CLASSES_22K).items():
        for cut, published in ((IMAGE, f"{FALLS[0]} to {FALLS[1]}%"), (EXACT, f"{FALLS_OWN}%")):
            before, after = (beside.speed(graph, cut) for graph in (graphs[name], large))
            rows.append((
                name, cut.name, f"{before:,.0f}", f"{after:,.0f}", published, f"{100 * (1 - after / before):.0f}%",
            ))  # fmt: skip
    return Section(
        title="Figure 16: images a second for 21,841 classes",
        text=(
            f"A.4, batch {BATCH} on {WAYS} devices, with overlap. The published falls are those of PyTorch and TensorFlow"
            " over the three networks, and DeePa's; image parallelism stands for the former. For VGG-16 and Inception-v3"
            " the engine hides the gradients of the larger layer beside the rest of the backward phase, as it is the first"
            " whose gradients are ready; for AlexNet there is not enough to hide them."
        ),
        heads=("network", "cut", "1,000 classes", f"{CLASSES_22K:,}", "fall, published", "ours"),
        rows=tuple(rows),
    )
