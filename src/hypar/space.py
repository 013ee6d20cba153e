"""A space: the choices that a search may pick from.

Written as dims, ``batch,in_channels``, or as dims for each kind of op, ``conv:batch linear:in_channels``,
or ``all``. Of equally good choices the one whose dim comes first wins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypar.errors import OptionError
from hypar.placement import WHOLE, Choice
from hypar.words import CUTTABLE, dim_of

if TYPE_CHECKING:
    from hypar.graph import CutLayer

_CHANNELS = {"in_channels", "out_channels"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """The dims that may be divided.

    Attributes:
        text: the space as it was written.
        dims: all dims, in order of preference; a join may take any of them.
        by_op: dims for the ops that have their own.
        default: dims for the other ops: those named without an op, or all where there are none.
    """

    text: str
    dims: tuple[str, ...]
    by_op: dict[str, tuple[str, ...]]
    default: tuple[str, ...]

    def choices(self, layer: CutLayer, ways: int) -> tuple[Choice, ...]:
        """The choices of a layer at a level.

        A dim of one element is left out where the layer has another. A grouped convolution may be cut
        between its groups where channels may be cut. A join may be cut as the space cuts channels, or be
        done whole by every device.

        Raises:
            OptionError: the space has no dim of the layer.
        """
        sizes = layer.einsum.sizes
        named = self.dims if layer.join else self.by_op.get(layer.op_name, self.default)
        dims = [dim for dim in named if dim in sizes]
        if not layer.join and not dims:
            allowed = ", ".join(dim for dim in CUTTABLE if dim in sizes)
            raise OptionError(f"space {self.text!r}", f"no dim of {layer.op_name} {layer.name!r}", allowed)
        extra = "channels" if layer.join else "groups"
        if extra in sizes and extra not in dims and _CHANNELS & {*named}:
            dims.append(extra)
        large = [dim for dim in dims if sizes[dim] > 1] or dims
        cut = tuple(Choice(dim, ways) for dim in large)
        return (*cut, WHOLE) if layer.join else cut


def parse_space(text: str) -> Space:
    """Read a space.

    Raises:
        OptionError: a word that is no dim, or nothing at all.

    Example:
        >>> parse_space("conv:batch linear:in_channels").by_op
        {'conv': ('batch',), 'linear': ('in_channels',)}
    """
    place = f"space {text!r}"
    if text.strip() == "all":
        return Space(text="all", dims=CUTTABLE[:5], by_op={}, default=CUTTABLE[:5])
    by_op: dict[str, tuple[str, ...]] = {}
    default: tuple[str, ...] = ()
    for part in text.split():
        op, colon, listed = part.rpartition(":")
        found = tuple(dict.fromkeys(_dim(word, place) for word in listed.split(",") if word))
        if colon and (not op or op in by_op):
            raise OptionError(
                place, f"no op before {part!r}" if not op else f"op {op!r} given twice", "OP:dims, once"
            )
        if colon:
            by_op[op] = found
        else:
            default = tuple(dict.fromkeys((*default, *found)))
    dims = tuple(dict.fromkeys(dim for found in (*by_op.values(), default) for dim in found))
    if not dims:
        raise OptionError(place, "names no dim", ", ".join(CUTTABLE))
    return Space(text=" ".join(text.split()), dims=dims, by_op=by_op, default=default or dims)


def _dim(word: str, place: str) -> str:
    """The dim that a word of a space stands for."""
    dim = dim_of(word, place)
    if dim is None:
        raise OptionError(place, f"found {word!r}", ", ".join(CUTTABLE))
    return dim
