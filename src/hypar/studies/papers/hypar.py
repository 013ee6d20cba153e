"""HyPar (HPCA 2019): Tables 1 and 2 and Figures 5 to 13, computed from the model files and the machine ``hmc`` alone.

The last sections have some of the figures on ``hmc-physical``.

All relative numbers are against dp on the same machine; means over the ten networks are geometric.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from hypar.studies.evaluation import Evaluation
from hypar.studies.page import Page
from hypar.studies.sections.hypar.amounts import amounts, counts, inference
from hypar.studies.sections.hypar.arrays import figure_11, figure_11_right, figure_12
from hypar.studies.sections.hypar.assumptions import assumptions, searched_for_time
from hypar.studies.sections.hypar.communication import figure_8
from hypar.studies.sections.hypar.flips import choices_that_differ
from hypar.studies.sections.hypar.fused import figure_8_fused
from hypar.studies.sections.hypar.networks import HALF, LEVELS, NETWORKS
from hypar.studies.sections.hypar.physical import both, the_machine, what_makes_it
from hypar.studies.sections.hypar.physical_arrays import (
    figure_10_physical,
    figure_11_physical,
    figure_13_physical,
)
from hypar.studies.sections.hypar.physical_results import figures_6_and_7
from hypar.studies.sections.hypar.plans import figure_5, figure_9, figure_10
from hypar.studies.sections.hypar.results import figure_6, figure_7, summary
from hypar.studies.sections.hypar.trick import figure_13, inequality

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypar.studies.papers.base import Reproduction

PUBLISHED = (
    counts, amounts, inference, figure_5, figure_6, figure_7, figure_8, figure_8_fused, figure_9, figure_10,
    figure_11, figure_11_right, figure_12, figure_13, inequality, assumptions, searched_for_time,
)  # fmt: skip
"""The sections on the machine as published, in the paper's order."""

PHYSICAL = (
    the_machine, figures_6_and_7, what_makes_it, figure_10_physical, figure_11_physical, figure_13_physical,
    choices_that_differ,
)  # fmt: skip
"""The sections that compare it with ``hmc-physical``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HyPar:
    """The reproduction of the paper's evaluation, and of the counts in its sections 1 to 4.

    Attributes:
        hardware: the machine.
        physical: whether the sections on ``hmc-physical`` follow.
    """

    hardware: str = "hmc"
    physical: bool = True

    def run(self, progress: Callable[[int, int], None]) -> Page:
        """Compute all figures."""
        ran = Evaluation(networks=NETWORKS, hardware=self.hardware, levels=LEVELS, inter_weight=HALF)
        on_both = both(ran)
        parts = [
            *(partial(part, ran) for part in PUBLISHED),
            *(partial(part, on_both) for part in PHYSICAL if self.physical),
        ]
        sections = []
        for part in parts:
            sections.append(part())
            progress(len(sections), len(parts))
        return Page(
            name="hypar",
            title="HyPar (HPCA 2019): published and ours",
            text=(
                "Written by `hypar reproduce hypar` from the model files and the machine `hmc` alone; a test computes it"
                " again. Ten networks, batch 256, four two-way levels, 32-bit elements. HyPar's plans are those of"
                " `--inter-weight 0.5`. Times and energies are the engine's, relative to dp; means are geometric. One"
                " machine serves all networks, and no number is fitted to one of them. The efficiency of a unit is fitted"
                " to the [Eyeriss](eyeriss.md) chip; where the paper leaves something open the results helped to decide,"
                " see Assumptions. The last sections repeat Figures 6, 7, 10, 11 and 13 on the machine `hmc-physical`."
            ),
            sections=(summary(ran), *sections),
        )


plugin: Reproduction = HyPar()
