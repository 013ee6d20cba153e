"""Windows: the input elements that the output elements of an op read along one spatial dim.

Shapes, halos and transfers ask a window and know no op.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


class ShapeError(ValueError):
    """Input shapes that an op does not accept; the graph adds the layer and the file."""


def fits(allowed: bool, found: str | Sequence[Mapping[str, int]], allow: str) -> None:
    """Raise ``ShapeError`` with what was found, or the shapes of inputs, and what is allowed, unless it is."""
    if not allowed:
        if not isinstance(found, str):
            found = "an input of " * (len(found) == 1) + describe(*found)
        raise ShapeError(f"found {found}; allowed: {allow}")


def describe(*shapes: Mapping[str, int]) -> str:
    """Format shapes for people.

    Examples:
        >>> describe({"channels": 3, "height": 224, "width": 224})
        '3x224x224 (channels, height, width)'
    """
    return " and ".join(f"{'x'.join(map(str, shape.values()))} ({', '.join(shape)})" for shape in shapes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """How outputs and inputs along one spatial dim meet, through taps.

    Tap k of output o of a sliding window, as of a convolution and a pool, meets input ``o stride - padding + k dilation``. A
    *transposed* one is the same from the other end, as of a transposed convolution and an interpolation: tap k of input i meets
    output ``i stride - padding + k dilation``.

    Attributes:
        kernel: number of taps.
        stride: elements between neighbouring places.
        padding: elements added at each end; a negative number drops elements, as ``crop`` does.
        dilation: elements between neighbouring taps.
        outputs: outputs of one place, as the patches beside each other in an image's rows.
        transposed: whether it slides over the output.
        output_padding: outputs added at the end, which a transposed window alone does not reach.
    """

    kernel: int
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    outputs: int = 1
    transposed: bool = False
    output_padding: int = 0

    @property
    def extent(self) -> int:
        """Number of elements from the first tap to the last."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def halo(self) -> int:
        """Number of input elements that two neighbouring shards both read; a sliding window reads ``extent - stride``.

        A border of transposed windows is counted at a multiple of the stride, where evenly divided images have it.

        Examples:
            >>> Window(kernel=3).halo, Window(kernel=3, stride=2).halo, Window(kernel=2, stride=2).halo
            (2, 1, 0)
            >>> Window(kernel=4, stride=2, padding=1, transposed=True).halo
            2
        """
        (_, before), (after, _) = self.reads(-1, 0), self.reads(0, 1)
        return int(max(0, before - after))

    def output_size(self, size: int, *, round_up: bool = False) -> int:
        """Return the number of outputs that ``size`` input elements make.

        Raises ``ShapeError`` for a window larger than the padded input; for a transposed one whose padding leaves no output, or
        whose output padding is not below stride or dilation.
        """
        if self.transposed:
            allowed, added = max(self.stride, self.dilation), self.output_padding
            found = f"output_padding {added} for stride {self.stride} and dilation {self.dilation}"
            fits(added < allowed, found, f"below {allowed}")
            places = (size - 1) * self.stride + self.extent + added
            found = f"padding {self.padding} of {places} places"
            fits(places > 2 * self.padding, found, "less than half of them")
            return places - 2 * self.padding
        room = size + 2 * self.padding - self.extent
        found = f"a window of {self.extent} on {size} elements padded by {self.padding}"
        fits(room >= 0, found, f"at most {size + 2 * self.padding}")
        if not round_up:
            return room // self.stride + 1
        places = -(-room // self.stride) + 1
        # The last window must start on the input or its padding before it, not wholly past them.
        return places - ((places - 1) * self.stride >= size + self.padding)

    def least_input(self, places: int) -> int:
        """Return the fewest input elements that make so many outputs, at least one for a transposed window."""
        if self.transposed:
            beyond = places + 2 * self.padding - self.extent - self.output_padding
            return 1 + max(0, -(-beyond // self.stride))
        return (places - 1) * self.stride + self.extent - 2 * self.padding

    def reads(self, low: Any, high: Any) -> tuple[Any, Any]:
        """Return the input elements that outputs ``low`` to ``high - 1`` read: the first, and the one past the last.

        Padding counts as input, negative before the first element. Bounds are equal if no window reaches the outputs; they may be arrays.

        Examples:
            >>> Window(kernel=3, stride=2, padding=1).reads(0, 4)
            (-1, 8)
            >>> Window(kernel=16, stride=16, outputs=14).reads(13, 15)
            (0, 32)
            >>> Window(kernel=3, stride=2, padding=1, transposed=True).reads(0, 4)
            (0, 3)
        """
        first, last = low, high - 1
        if self.transposed:
            first, last = first + self.padding - self.extent, last + self.padding
            return first // self.stride + 1, last // self.stride + 1
        if self.outputs > 1:
            first, last = first // self.outputs, last // self.outputs
        return first * self.stride - self.padding, last * self.stride - self.padding + self.extent

    def taps(self, size: int, places: Any) -> Any:
        """Return the input element that each tap meets at some places, -1 outside the input: ``[places, kernel]``.

        Examples:
            >>> Window(kernel=3, stride=2, padding=1).taps(4, np.arange(2)).tolist()
            [[-1, 0, 1], [1, 2, 3]]
            >>> Window(kernel=3, stride=2, padding=1, transposed=True).taps(2, np.arange(3)).tolist()
            [[-1, 0, -1], [1, -1, 0], [-1, 1, -1]]
        """
        taps = np.arange(self.kernel) * self.dilation
        if self.transposed:
            whole, rest = np.divmod(places[:, None] + self.padding - taps, self.stride)
            found = np.where(rest == 0, whole, -1)
        else:
            found = places[:, None] // self.outputs * self.stride - self.padding + taps
        return np.where((found >= 0) & (found < size), found, -1)


def round_of(experts: int, taken: int) -> int:
    """Return the positions of a round of an even routing, by place alone, in the place of the largest scores.

    The positions of a round fill one slot of each expert, so that a division of positions is one of slots: each goes to the next
    ``taken`` experts, from another first one for each sample and round. Raises ``ShapeError`` if these are more than there are.

    Examples:
        >>> round_of(8, 2)
        4
    """
    fits(taken <= experts, f"count {taken} for {experts} experts", f"at most {experts}")
    return experts // taken
