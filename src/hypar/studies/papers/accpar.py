"""AccPar (HPCA 2020): speed over dp on heterogeneous and identical boards, shares, effects of links, and amounts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.studies.page import Page
from hypar.studies.sections.accpar.amounts import amounts, inside
from hypar.studies.sections.accpar.averages import averages
from hypar.studies.sections.accpar.boards import ends, heterogeneous_boards, identical_boards, shares
from hypar.studies.sections.accpar.links import what_if
from hypar.studies.sections.accpar.runs import BATCH, HETEROGENEOUS, IDENTICAL, Runs

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypar.studies.papers.base import Reproduction


class AccPar:
    """The reproduction of the paper's averages and tables, with an analysis of the averages."""

    def run(self, progress: Callable[[int, int], None]) -> Page:
        """Compute speeds, shares, ends, links and amounts."""
        runs = Runs()
        parts = (averages, heterogeneous_boards, identical_boards, shares, ends, what_if, amounts, inside)
        sections = []
        for part in parts:
            sections.append(part(runs))
            progress(len(sections), len(parts))
        return Page(
            name="accpar",
            title="AccPar (HPCA 2020): published and ours",
            text=(
                f"Written by `hypar reproduce accpar` from the model files and the machines `{HETEROGENEOUS}` and `{IDENTICAL}` alone;"
                f" a test computes it again. Batch {BATCH}, 32-bit elements. Times are the engine's, of one training step,"
                " relative to dp with equal shares on the same boards. Only three averages of the paper are at hand, from a"
                " summary of it, and not how they were averaged: both means stand beside them. Nothing is fitted to them."
            ),
            sections=tuple(sections),
        )


plugin: Reproduction = AccPar()
