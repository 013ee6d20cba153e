"""The words that papers and people use for the dims that a choice divides."""

from __future__ import annotations

from hypar.errors import OptionError, suggestion

WORDS = {
    "batch": ("dp", "I", "n"),
    "in_channels": ("mp", "II", "i"),
    "out_channels": ("out", "III", "c"),
    "height": ("h", "h", "h"),
    "width": ("w", "w", "w"),
    "groups": ("groups", "groups", "g"),
    "channels": ("mp", "ch", "c"),
    None: ("rep", "rep", "rep"),
}
"""Each dim in the words of HyPar, AccPar and DeePa; ``channels`` are those of a join, None is a whole copy."""

CUTTABLE = ("batch", "in_channels", "out_channels", "height", "width", "groups", "channels")
"""Every dim that a choice may divide."""

COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "neighbours")
"""The manners in which a tensor changes its placement; ``neighbours`` is what a halo does."""


def vocabulary(dims: set[str]) -> int:
    """Which paper's words suit a space: HyPar's for dp and mp, AccPar's for three types, else DeePa's."""
    if dims <= {"batch", "in_channels", "channels", "groups"}:
        return 0
    return 1 if dims <= {"batch", "in_channels", "out_channels", "channels", "groups"} else 2


def dim_of(word: str, where: str) -> str | None:
    """The dim that a word stands for; None for ``rep``.

    Args:
        word: a dim, or any paper's word for it.
        where: what to name in the error.

    Raises:
        OptionError: no such word.

    Example:
        >>> dim_of("mp", "--pin"), dim_of("III", "--pin"), dim_of("rep", "--pin")
        ('in_channels', 'out_channels', None)
    """
    for dim, words in WORDS.items():
        if word in words or word == dim:
            return dim
    named = (name for words in WORDS.values() for name in words)
    hint = suggestion(word, [*CUTTABLE, *named])
    raise OptionError(where, f"found {word!r}", f"{', '.join(CUTTABLE)}, or a paper's word", hint)
