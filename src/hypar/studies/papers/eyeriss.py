"""Eyeriss (JSSC 2017), Tables V and VI; ISCA 2016, Figure 10; TETRIS' ratios: beside the row-stationary model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.studies.page import Page
from hypar.studies.sections.eyeriss.arrays import figure_10, tetris
from hypar.studies.sections.eyeriss.chip import (
    held_out_6,
    held_out_words_6,
    power,
    table_5,
    table_6,
    words_5,
    words_6,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypar.studies.papers.base import Reproduction

SECTIONS = (
    table_5,
    words_5,
    table_6,
    words_6,
    held_out_6,
    held_out_words_6,
    power,
    figure_10,
    tetris,
)


class Eyeriss:
    """The reproduction of the chip's tables, of the comparison before it, and of TETRIS' ratios."""

    def run(self, progress: Callable[[int, int], None]) -> Page:
        """Compute the sections."""
        sections = []
        for done, section in enumerate(SECTIONS, 1):
            sections.append(section())
            progress(done, len(SECTIONS))
        return Page(
            name="eyeriss",
            title="Eyeriss (JSSC 2017): published and ours",
            text=(
                "Written by `hypar reproduce eyeriss` from the model files `alexnet-2012` and `vgg16` and the machines"
                " `eyeriss`, `eyeriss-isca`, `tetris` and `tetris-2d` alone, with the zeros of feature maps that the chip's"
                " tables give; a test computes it again. Two numbers are fitted, both of the machine `eyeriss` and on AlexNet's"
                " five convolutions: its efficiency of 0.88, on their times, and its 166 mW at rest, on their powers."
                " Everything else follows from the shapes, the zeros and the published sizes and energies."
            ),
            sections=tuple(sections),
        )


plugin: Reproduction = Eyeriss()
