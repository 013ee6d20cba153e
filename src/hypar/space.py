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
        dims: all dims, in order of preference.
        by_op: dims for the ops that have their own.
    """

    text: str
    dims: tuple[str, ...]
    by_op: dict[str, tuple[str, ...]]

    def choices(self, layer: CutLayer, ways: int) -> tuple[Choice, ...]:
        """The choices of a layer at a level.

        A dim of one element is left out where the layer has another. A grouped convolution may be cut
        between its groups where channels may be cut. A join may be cut as the space cuts channels, or be
        done whole by every device.

        Raises:
            OptionError: the space has no dim of the layer.
        """
        sizes = layer.einsum.sizes
        dims = [dim for dim in self.by_op.get(layer.op_name, self.dims) if dim in sizes]
        if not layer.join and not dims:
            raise OptionError(
                f"space {self.text!r}",
                f"no dim of {layer.op_name} {layer.name!r}",
                ", ".join(self._open(sizes)),
            )
        extra = "channels" if layer.join else "groups"
        if extra in sizes and extra not in dims and _CHANNELS & {*(self.dims if layer.join else dims)}:
            dims.append(extra)
        large = [dim for dim in dims if sizes[dim] > 1] or dims
        cut = tuple(Choice(dim, ways) for dim in large)
        return (*cut, WHOLE) if layer.join else cut

    @staticmethod
    def _open(sizes: object) -> list[str]:
        """The dims of a layer that a space could name."""
        return [dim for dim in CUTTABLE if isinstance(sizes, dict) and dim in sizes]


def parse_space(text: str) -> Space:
    """Read a space.

    Raises:
        OptionError: a word that is no dim, or nothing at all.

    Example:
        >>> parse_space("conv:batch linear:in_channels").by_op
        {'conv': ('batch',), 'linear': ('in_channels',)}
    """
    if text.strip() == "all":
        return Space(text="all", dims=CUTTABLE[:5], by_op={})
    by_op: dict[str, tuple[str, ...]] = {}
    dims: list[str] = []
    for part in text.split():
        op, colon, listed = part.rpartition(":")
        if colon and not op:
            raise OptionError(f"space {text!r}", f"no op before {part!r}", "dims, or OP:dims")
        named = [dim_of(word, f"space {text!r}") for word in listed.split(",") if word]
        found = tuple(dict.fromkeys(dim for dim in named if dim is not None))
        if op:
            by_op[op] = found
        dims += [dim for dim in found if dim not in dims]
    if not dims:
        raise OptionError(f"space {text!r}", "names no dim", ", ".join(CUTTABLE))
    return Space(text=" ".join(text.split()), dims=tuple(dims), by_op=by_op)
