"""Feature maps with zeros in memory: run-length coded as on Eyeriss.

A word of 64 bits holds three pairs and one bit that marks the last word of a code; a pair is the number of zeros before an
element, in 5 bits, and that element, in 16. A mapping reads some channels of a sample, so that each channel of a sample is a
code of its own, and a vector is one. The zeros at its end take a pair, and its last word may have room for two more.

Source: Chen, Krishna, Emer and Sze, Eyeriss: An Energy-Efficient Reconfigurable Accelerator (JSSC 2017), section III.
"""

from __future__ import annotations

import math

MOST_ZEROS = 31
"""Zeros of a run that one pair counts."""

PAIRS = 3
"""Pairs of a word of 64 bits."""

PAIR_WORDS = 64 / PAIRS / 16
"""Words of 16 bits that a pair takes."""


def run_length_words(zeros: float | None, elements: float = math.inf) -> float:
    """Return the words that an element of a feature map takes in memory, its zeros being anywhere.

    A pair stands for an element and for the zeros before it, up to ``MOST_ZEROS``: for one and for z + z^2 + ... elements
    in the mean, z being the fraction of zeros. Without many zeros that is more than a word. A code ends inside a run as
    often as an element makes no pair, and its last word has room for one pair in the mean.

    Args:
        zeros: fraction of zeros; None if not known, so that the map is not coded.
        elements: elements of a code.
    """
    if zeros is None:
        return 1.0
    pairs = 1 / sum(zeros**run for run in range(MOST_ZEROS + 1))
    return PAIR_WORDS * (pairs + (1 - pairs + (PAIRS - 1) / 2) / elements)
