"""Feature maps with zeros in memory: run-length coded as on Eyeriss.

A word of 64 bits holds three pairs and one bit that marks the last word; a pair is the number of zeros before an element,
in 5 bits, and that element, in 16.

Source: Chen, Krishna, Emer and Sze, Eyeriss: An Energy-Efficient Reconfigurable Accelerator (JSSC 2017), section III.
"""

from __future__ import annotations

MOST_ZEROS = 31
"""Zeros of a run that one pair counts."""

PAIR_WORDS = 64 / 3 / 16
"""Words of 16 bits that a pair takes."""


def run_length_words(zeros: float | None) -> float:
    """Return the words that an element of a feature map takes in memory, its zeros being anywhere.

    A pair stands for an element and for the zeros before it, up to ``MOST_ZEROS``: for one and for z + z^2 + ... elements
    in the mean, z being the fraction of zeros. Without many zeros that is more than a word.

    Args:
        zeros: fraction of zeros; None if not known, so that the map is not coded.
    """
    return 1.0 if zeros is None else PAIR_WORDS / sum(zeros**run for run in range(MOST_ZEROS + 1))
