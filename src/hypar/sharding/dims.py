"""The words of papers and users for the dims that a choice divides."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from hypar.errors import OptionError, shown, suggestion
from hypar.ops.dims import CUTTABLE, NAME, in_order

WORDS: dict[str | None, tuple[str, str, str]] = {
    "batch": ("dp", "I", "n"),
    "in_channels": ("mp", "II", "i"),
    "out_channels": ("out", "III", "c"),
    "height": ("h", "h", "h"),
    "width": ("w", "w", "w"),
    "groups": ("groups", "groups", "g"),
    "channels": ("mp", "ch", "c"),
    None: ("rep", "rep", "rep"),
}
"""Each dim in the words of HyPar, AccPar and DeePa; ``channels`` is a join's, None stands for replication."""

TENSOR, EXPERT, WHOLE_WORD = "tp", "ep", "rep"
"""The words for the dims by which tensor and expert parallelism divide a layer, and for a layer that every device computes whole."""

OF_FIELD = {"column": "out_channels", "row": "in_channels", "sp": "sequence", "cp": "sequence"}
"""Words of practice for dims: column- and row-parallel, sequence and context parallel; networks may name a dim so themselves."""

GRIDS = 2
"""Index of the words in which grids are written."""

BATCH = "batch"

SPATIAL = ("height", "width")
"""The dims along which windows reach across borders."""


def word_of(dim: str | None, words: int) -> str:
    """Return the word for a dim in one paper's words; a dim that a model names has its own name in all of them."""
    return WORDS.get(dim, (str(dim),) * 3)[words]


def choice_word(degrees: tuple[tuple[str, int], ...], ways: int, words: int, *, grids: bool = False) -> str:
    """Return the name of a choice in a paper's words, which a pin reads; it says nothing of an order of the devices.

    ``words`` is the index of the paper whose word names a dim divided over all devices. With ``grids`` layers may divide several dims, so
    that all are written as grids on more than two ways.

    Examples:
        >>> choice_word((("batch", 2),), 2, 0), choice_word((("batch", 4), ("height", 2)), 16, 0)
        ('dp', 'n4 c1 h2 w1')
        >>> choice_word((("batch", 8),), 16, 0), choice_word((("in_channels", 2), ("batch", 2)), 4, 0)
        ('n8 c1', 'n2 i2 c1')
    """
    if not degrees:
        return word_of(None, words)
    if len(degrees) == 1 and degrees[0][1] == ways and not (grids and ways > 2):
        return word_of(degrees[0][0], words)
    return grid_word(dict(degrees))


def grid_word(degrees: Mapping[str, int]) -> str:
    """Return a choice as DeePa writes it: always n and c, h and w if either is divided, others if divided.

    Examples:
        >>> grid_word({"batch": 4, "width": 2})
        'n4 c1 h1 w2'
    """
    shown = {"batch", *(dim for dim, degree in degrees.items() if degree > 1)}
    named = in_order(shown - {*CUTTABLE})
    shown |= {*SPATIAL} if {*SPATIAL} & {*degrees} else set()
    shown |= set() if named or "channels" in shown else {"out_channels"}
    order = ("batch", "in_channels", "groups", "out_channels", "channels", "height", "width", *named)
    return " ".join(f"{word_of(dim, GRIDS)}{degrees.get(dim, 1)}" for dim in order if dim in shown)


def grid_of(text: str, where: str, named: Collection[str] | None = ()) -> dict[str, int]:
    """Return the degrees in a text as ``n4 c1 h2 w2`` or ``batch4 height2``; 0 for the dim of a text without numbers.

    Raises:
        OptionError: a word is no dim or is repeated, or its degree is not a whole number from 1 on.
    """
    if not any(character.isdigit() for character in text):
        dim = dim_of(text, where, named)
        return {} if dim is None else {dim: 0}
    found: dict[str, int] = {}
    # No number of devices has more than nine digits.
    for digits, word, number in re.findall(r"(\d+)|([^\d\s]+)\s*(\d{0,9})", text):
        dim = None if digits else dim_of(word, where, named)
        degree = int(number or 0)
        if dim is None or dim in found or degree < 1:
            allowed = "a dim or paper's word and its degree each, as n4 h2 w2"
            raise OptionError(where, f"found {shown(text)}", allowed)
        found[dim] = degree
    return found


def dim_of(word: str, where: str, named: Collection[str] | None = ()) -> str | None:
    """Return the dim that a word stands for, a dim, any paper's word for it, or one of practice; None for ``rep``.

    The model names the ``named`` dims; None if any name may be one of them.

    Raises:
        OptionError: the word is unknown.

    Examples:
        >>> dim_of("mp", "--pin"), dim_of("III", "--pin"), dim_of("rep", "--pin")
        ('in_channels', 'out_channels', None)
    """
    if named is not None and word in named:
        return word
    if word in {TENSOR, EXPERT}:
        return word
    if word in OF_FIELD:
        return dim_of(OF_FIELD[word], where, named)
    for dim, words in WORDS.items():
        if word in words or word == dim:
            return dim
    if named is None and NAME.fullmatch(word):
        return word
    words_known = (*(name for words in WORDS.values() for name in words), *OF_FIELD, TENSOR)
    hint = suggestion(word, [*CUTTABLE, *(named or ()), *words_known])
    allowed = ", ".join((*CUTTABLE, *in_order(named or ())))
    raise OptionError(where, f"found {word!r}", f"{allowed}, or a paper's word", hint)
