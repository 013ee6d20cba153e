"""The colours of dims and kinds of time on a white ground, and the contrast of text on them.

Each is told apart with each of the three colour blindnesses; the tests compute it. ``report.css`` has the dark ones.
"""

from __future__ import annotations

from colorsys import hls_to_rgb
from typing import NamedTuple

from hypar.ops.dims import CONTRACTED, MADE, READ, atom_of


class Colours(NamedTuple):
    """The colours of a choice that cuts one dim: its ground, the text on it, and the ANSI colour of its word."""

    ground: str
    text: str
    terminal: str


BLACK, WHITE, INK, MUTED, LINE, RULE = "#000000", "#ffffff", "#1b1f24", "#57606a", "#d8dee4", "#8c959f"
MIDDLE = 0.179
"""The luminance from which black has more contrast than white."""

TIMES = {"forward": "#7a91a6", "backward": "#52677a", "gradient": "#2b3a48", "update": "#0b0f13",
         "communication": "#c4472b"}  # fmt: skip

_NAMED = {"ink": INK, "muted": MUTED, "line": LINE, "rule": RULE, "ground": WHITE, **TIMES,
          "computes": TIMES["backward"], "receives": TIMES["communication"], "energy": "#bd8b13"}  # fmt: skip

_DIMS = {"batch": ("#bddaf3", "bright_blue"), "in_channels": ("#f0a02e", "yellow"), "out_channels": ("#8a3577", "magenta"),
         "height": ("#1f9e7a", "green"), "width": ("#f4e96a", "cyan"), "groups": ("#5c4636", "red"),
         "whole": (WHITE, "dim")}  # fmt: skip
_ATOMS = ("hidden", "heads", "ff", "vocab", "kv_heads", "head_dim", "group", "sequence", "experts", "slots", "types",
          "classes")  # fmt: skip
_ROLES = {READ: ("yellow", 0.09), CONTRACTED: ("yellow", 0.02), MADE: ("magenta", 0.86), "": ("green", 0.45)}


def colours_of(dim: str | None) -> Colours:
    """Return the colours of a dim; a join's ``channels`` have those of ``in_channels``, no dim those of a whole layer.

    A dim that a model names has a hue by what an op does with it, and a shade of its own.
    """
    name = "in_channels" if dim == "channels" else dim or "whole"
    if name in _DIMS:
        ground, terminal = _DIMS[name]
    else:
        atom = atom_of(name)
        terminal, hue = _ROLES[name.removesuffix(atom)]
        shade = _ATOMS.index(atom) if atom in _ATOMS else sum(atom.encode()) % len(_ATOMS)
        lightness = 0.3 + 0.04 * ((6 + 5 * shade) % len(_ATOMS))
        shares = hls_to_rgb(hue + 0.04 * ((shade + 1) % 3 - 1), lightness, 0.4 + 0.25 * (shade % 2))
        ground = "#" + "".join(f"{round(255 * share):02x}" for share in shares)
    return Colours(ground, BLACK if _luminance(ground) > MIDDLE else WHITE, terminal)


def colour_of(name: str) -> str:
    """Return the colour of a name in a picture: of a phase, a dim, or with ``-t`` of the text on a dim."""
    colours = colours_of(name.removesuffix("-t"))
    return _NAMED.get(name) or (colours.text if name.endswith("-t") else colours.ground)


def _luminance(colour: str) -> float:
    """Return the relative luminance of a colour by WCAG 2.2, from 0 to 1."""
    coded = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (own / 12.92 if own <= 0.04045 else ((own + 0.055) / 1.055) ** 2.4 for own in coded)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
