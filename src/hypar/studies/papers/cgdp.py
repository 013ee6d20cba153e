"""CGDP (ICPE 2018): chunks, the search for their size, AlexNet layer by layer, and every table of its evaluation.

The paper's measured times stand in ``sections.cgdp.published`` as inputs. All else is computed from them and from the
layers of model files, except one number, the synchronisation of a chunk, which is fitted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.studies.page import Page
from hypar.studies.sections.cgdp.deep import figure_2, figure_5, no_chunks
from hypar.studies.sections.cgdp.iterations import condition, table_1, table_2, weak_scaling
from hypar.studies.sections.cgdp.long_run import left_out, long_run
from hypar.studies.sections.cgdp.memory import table_5
from hypar.studies.sections.cgdp.phases import alexnet_chunks, table_3, table_4
from hypar.studies.sections.cgdp.sizes import algorithm, proposition, rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypar.studies.papers.base import Reproduction

SECTIONS = (
    *(
        rule,
        proposition,
        algorithm,
        table_1,
        table_4,
        table_3,
        alexnet_chunks,
        table_2,
        weak_scaling,
        condition,
    ),
    *(figure_2, figure_5, no_chunks, table_5, long_run, left_out),
)
"""The sections, each after those that it depends on."""


class Cgdp:
    """The reproduction of the paper's statements, with its measured times in its model."""

    def run(self, progress: Callable[[int, int], None]) -> Page:
        """Compute the page, one section for each table or figure."""
        sections = []
        for done, part in enumerate(SECTIONS, 1):
            sections.append(part())
            progress(done, len(SECTIONS))
        return Page(
            name="cgdp",
            title="CGDP (ICPE 2018): published and ours",
            text=(
                "Written by `hypar reproduce cgdp` from model files and the paper's measured times, which are given; a test"
                " computes it again. Layers are counted from 1 at the input, so the backward phase goes from the last to the"
                " first. One number is fitted, the synchronisation of a chunk, to AlexNet's backward phase. Other networks"
                " exchange each byte at AlexNet's rates. Le, Sekiyama, Negishi, Imai and Kawachiya, Involving CPUs into"
                " Multi-GPU Deep Learning."
            ),
            sections=tuple(sections),
        )


plugin: Reproduction = Cgdp()
