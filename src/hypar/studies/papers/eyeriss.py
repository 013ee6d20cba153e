"""Eyeriss (JSSC 2017), Table V: AlexNet's convolutions on the chip, beside the row-stationary model.

Published numbers stand here to be printed beside ours; no computation reads them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.files.figures import Figure
from hypar.machine.load import load_machine
from hypar.network.build import load_model
from hypar.sharding.dims import CUTTABLE
from hypar.studies.page import Page, Section, beside

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypar.studies.papers.base import Reproduction

BATCH = 4
PUBLISHED = {
    "conv1": (154, 16.5),
    "conv2": (135, 39.2),
    "conv3": (156, 21.8),
    "conv4": (156, 16.0),
    "conv5": (156, 10.0),
}
"""Active processing elements, and processing time in ms at 200 MHz and batch 4."""


class Eyeriss:
    """The reproduction of the chip's table."""

    def run(self, progress: Callable[[int, int], None]) -> Page:
        """Compute the section."""
        section = table_5()
        progress(1, 1)
        return Page(
            name="eyeriss",
            title="Eyeriss (JSSC 2017): published and ours",
            text=(
                "Written by `hypar reproduce eyeriss` from the model file `alexnet-2012` and the machine `eyeriss`"
                " alone; a test computes it again. One factor is fitted, the machine's efficiency, for all layers"
                " together; everything else follows from the shapes."
            ),
            sections=(section,),
        )


def table_5() -> Section:
    """Compare the active elements and the time of each convolution."""
    machine, graph = load_machine("eyeriss"), load_model("alexnet-2012", batch=BATCH)
    rows, times = [], {}
    for layer in graph.contracted.layers:
        if layer.name in PUBLISHED:
            active, published = PUBLISHED[layer.name]
            time = machine.layer_time(layer.einsum, (1,) * len(CUTTABLE), graph.element_bytes)
            laid = time.work["forward"].mapping
            times[layer.name] = time.seconds["forward"] * 1e3
            sets = f"{laid['sets']:.0f} of {laid['kernel_rows']:.0f} x {laid['columns']:.0f}, {laid['folds']:.0f} folds"
            numbers = beside(published, times[layer.name], 1)
            rows.append(
                (
                    layer.name,
                    sets,
                    str(active),
                    f"{laid['active']:.0f}",
                    f"{laid['utilisation']:.1%}",
                    *numbers,
                )
            )
    total = beside(sum(time for _, time in PUBLISHED.values()), sum(times.values()), 1)
    return Section(
        title="Table V: AlexNet's convolutions",
        text=(
            "Forward, batch 4, 200 MHz, 12 x 14 processing elements; conv2, conv4 and conv5 in two groups. conv1 has 11"
            " rows of kernel and 55 rows of output: two sets of 11 x 7 elements work side by side, in eight folds, so 154"
            " are active. conv2 stands in two bands, 5 x 14"
            " and 5 x 13. Utilisation is that of all 168 elements over the whole layer, before the efficiency. The"
            " chip's early layers are slower and its last is faster than the one factor says."
        ),
        heads=("layer", "sets", "active, published", "active, ours", "utilisation", "ms, published", "ms, ours", "ratio"),
        rows=(*rows, ("total", "", "", "", "", *total)),
        figure=Figure(
            title="AlexNet's convolutions on Eyeriss", x=list(PUBLISHED), x_label="", y_label="ms",
            series={"published": [time for _, time in PUBLISHED.values()], "ours": list(times.values())},
        ),
    )  # fmt: skip


plugin: Reproduction = Eyeriss()
