"""Which piece of a tensor each device has when a level divides several dims, and what two such pieces share.

Everything is counted for all pairs of two layers' choices at once: the elements that a device needs and holds are
a box, and two boxes share the product of what their sides share.
"""

from hypar.tiles.bounds import Bounds, Side, bounds, reach, side
from hypar.tiles.layouts import Layout, Numbers, layout
from hypar.tiles.overlap import boxes, copies, overlap

__all__ = [
    "Bounds",
    "Layout",
    "Numbers",
    "Side",
    "bounds",
    "boxes",
    "copies",
    "layout",
    "overlap",
    "reach",
    "side",
]
