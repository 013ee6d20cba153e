"""DeePa (2018): its tables, and the computable quantities of its figures.

Published numbers stand in ``sections.deepa`` to be printed beside ours; no computation reads them except X, W and C of
Tables 2 and 3, which are measured times and inputs.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hypar.machine.load import load_machine
from hypar.studies.page import Page, Section
from hypar.studies.sections.deepa import configurations, layers, throughput, transfers
from hypar.studies.sections.deepa.estimates import TABLE_2, TABLE_3, table
from hypar.studies.sections.deepa.networks import ALEXNET, BATCH, networks
from hypar.studies.sections.deepa.plans import MACHINE, WAYS, Plans
from hypar.studies.sections.deepa.searching import eliminations

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypar.studies.papers.base import Reproduction


class Deepa:
    """The reproduction of the paper's tables, and of the results in its figures that can be computed."""

    def run(self, progress: Callable[[int, int], None]) -> Page:
        """Compute all sections, in the paper's order."""
        graphs = networks()
        alexnet, vgg, inception = graphs.values()
        plain, beside = Plans(load_machine(MACHINE)), Plans(load_machine(MACHINE, {"overlap": "full"}))
        parts: tuple[Callable[[], Section], ...] = (
            lambda: layers.table_1(graphs),
            lambda: layers.figure_1(graphs, plain.machine),
            lambda: layers.figure_2(inception, plain.machine),
            lambda: layers.figure_3(vgg, plain),
            lambda: eliminations(graphs),
            lambda: throughput.figure_7(graphs, plain, beside),
            lambda: transfers.figure_8(graphs, plain),
            lambda: transfers.readings(graphs, plain),
            lambda: table(TABLE_2, alexnet),
            lambda: table(TABLE_3, vgg),
            *(partial(configurations.configuration, graph, plain) for graph in graphs.values()),
            lambda: configurations.costs(graphs, plain),
            lambda: transfers.inception(inception, plain),
            lambda: throughput.figure_13(graphs, beside),
            lambda: throughput.figure_14(graphs, beside),
            lambda: transfers.figure_15(vgg, plain),
            lambda: throughput.figure_15_times(vgg, plain, beside),
            lambda: transfers.figure_16(graphs, plain),
            lambda: throughput.figure_16_speeds(graphs, beside),
        )
        sections = []
        for done, part in enumerate(parts, 1):
            sections.append(part())
            progress(done, len(parts))
        return Page(
            name="deepa",
            title="DeePa (2018): published and ours",
            text=(
                "Written by `hypar reproduce deepa` from the model files `alexnet`, `vgg16` and `inception-v3` and the"
                f" machine `{MACHINE}`; a test computes it again. `{ALEXNET}` is `alexnet` with the widths of Krizhevsky"
                f" (2014), which is the paper's. Batch {BATCH} on {WAYS} devices unless said otherwise. X, W and C of"
                " Tables 2 and 3 are the paper's measurements and are given; everything else follows from shapes and the"
                f" machine's file. `{MACHINE}` is the cluster of section 7.3, Figures 14 and 15. All else was measured on a"
                " node of 16 K80 GPUs, whose links the paper does not describe and its tables do not agree on, so"
                " it is computed on the cluster. Figures 4 to 6 are drawings without numbers."
            ),
            sections=tuple(sections),
        )


plugin: Reproduction = Deepa()
