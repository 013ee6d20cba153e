"""Layer-block-wise pipeline (MLSP 2017): Tables I and II, Figures 2 and 5 to 9, Algorithm 1, and the schedule, simulated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.studies.page import Page, Section
from hypar.studies.sections.pipeline.algorithm import rings, simulated
from hypar.studies.sections.pipeline.blocks import divided
from hypar.studies.sections.pipeline.memory import at_batch, degrees, stages, threads, totals
from hypar.studies.sections.pipeline.partitions import convergence, partitions
from hypar.studies.sections.pipeline.published import MODEL, STARTS, network
from hypar.studies.sections.pipeline.transfers import between, figure_5, figure_6

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypar.studies.papers.base import Reproduction


class LayerBlockPipeline:
    """The reproduction of the paper's tables, figures, schedule and algorithm, with other stages of its network."""

    def run(self, progress: Callable[[int, int], None]) -> Page:
        """Compute the stages' and threads' memory and traffic, the schedule, the algorithm, and the best partitions."""
        graph = network()
        found = divided(graph.with_batch(1), STARTS)
        parts: tuple[Callable[[], Section], ...] = (
            lambda: threads(found),
            lambda: stages(found),
            lambda: at_batch(found),
            lambda: totals(found),
            lambda: between(found),
            lambda: degrees(found),
            lambda: figure_5(found),
            lambda: figure_6(found),
            simulated,
            rings,
            lambda: partitions(graph),
            lambda: convergence(graph),
        )
        sections = []
        for done, part in enumerate(parts, 1):
            sections.append(part())
            progress(done, len(parts))
        return Page(
            name="pipeline",
            title="Layer-block-wise pipeline (MLSP 2017): published and ours",
            text=(
                "Mori, Youkawa, Izumi, Yoshimoto, Kawaguchi and Inoue, A layer-block-wise pipeline for memory and"
                " bandwidth reduction in distributed deep learning (MLSP 2017). Written by `hypar reproduce pipeline`"
                f" from the model file `{MODEL}` and the published stages, and as published without any bias; a test"
                " computes it again. The stages are counted as the paper counts them, and the schedule is that of"
                " [hypar pipeline](../pipeline.md), simulated."
            ),
            sections=tuple(sections),
        )


plugin: Reproduction = LayerBlockPipeline()
