"""Windows: the input elements that the output elements of an op read along one spatial dim.

A ``Window`` slides over the input, as those of a convolution and a pool. A ``TransposedWindow`` is its transpose: an
output element reads the input elements over which the window of the opposite op would read it. It describes a
transposed convolution and an interpolation. Shapes, halos and transfers ask a window and know no op.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np


class ShapeError(ValueError):
    """Input shapes that an op does not accept; the graph adds the layer and the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A sliding window along one spatial dim.

    Attributes:
        kernel: number of taps.
        stride: input elements between neighbouring places.
        padding: elements added at each end; a negative number drops elements, as ``crop`` does.
        dilation: input elements between neighbouring taps.
        outputs: outputs of one place, as the patches beside each other in an image's rows.
    """

    kernel: int
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    outputs: int = 1

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
            >>> TransposedWindow(kernel=2, stride=2).halo, TransposedWindow(kernel=4, stride=2, padding=1).halo
            (0, 2)
        """
        (_, before), (after, _) = self.reads(-1, 0), self.reads(0, 1)
        return int(max(0, before - after))

    @property
    def gaps(self) -> bool:
        """Whether neighbouring places leave input elements between them unread."""
        return self.stride > self.extent

    def output_size(self, size: int, *, round_up: bool = False) -> int:
        """Return the number of places on ``size`` elements; raises ``ShapeError`` for a window larger than the padded input."""
        room = size + 2 * self.padding - self.extent
        if room < 0:
            raise ShapeError(
                f"found a window of {self.extent} on {size} elements padded by {self.padding};"
                f" allowed: at most {size + 2 * self.padding}"
            )
        if not round_up:
            return room // self.stride + 1
        places = -(-room // self.stride) + 1
        # The last window must start on the input or its padding before it, not wholly past them.
        return places - ((places - 1) * self.stride >= size + self.padding)

    def least_input(self, places: int) -> int:
        """Return the fewest input elements that make so many outputs."""
        return (places - 1) * self.stride + self.extent - 2 * self.padding

    def reads(self, low: Any, high: Any) -> tuple[Any, Any]:
        """Return the input elements that outputs ``low`` to ``high - 1`` read: the first, and the one past the last.

        Padding counts as input elements, which are negative before the first. Bounds may be arrays.

        Examples:
            >>> Window(kernel=3, stride=2, padding=1).reads(0, 4)
            (-1, 8)
            >>> Window(kernel=16, stride=16, outputs=14).reads(13, 15)
            (0, 32)
        """
        first, last = low, high - 1
        if self.outputs > 1:
            first, last = first // self.outputs, last // self.outputs
        return first * self.stride - self.padding, last * self.stride - self.padding + self.extent

    def taps(self, size: int, places: Any) -> Any:
        """Return the input element that each tap meets at some places, -1 outside the input: ``[places, kernel]``.

        Examples:
            >>> Window(kernel=3, stride=2, padding=1).taps(4, np.arange(2)).tolist()
            [[-1, 0, 1], [1, 2, 3]]
        """
        taps = np.arange(self.kernel) * self.dilation
        return _inside(places[:, None] // self.outputs * self.stride - self.padding + taps, size)

    def steps(self, read: Any, made: Any) -> Any:  # noqa: ARG002
        """Return how often the kernel is applied, all taps at once, for ``read`` input and ``made`` output elements."""
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class TransposedWindow(Window):
    """The transpose of a sliding window: input element i meets outputs ``i stride - padding`` and on, ``extent`` of them.

    Attributes:
        output_padding: outputs added at the end, which the window alone does not reach.
    """

    output_padding: int = 0

    @classmethod
    def of(cls, window: Window, output_padding: int) -> TransposedWindow:
        """Return the transpose of a window.

        Raises:
            ShapeError: the output padding is not below the stride or the dilation.
        """
        allowed = max(window.stride, window.dilation)
        if output_padding >= allowed:
            raise ShapeError(
                f"found output_padding {output_padding} for stride {window.stride} and dilation {window.dilation};"
                f" allowed: below {allowed}"
            )
        return cls(**asdict(window), output_padding=output_padding)

    @property
    def gaps(self) -> bool:
        """Whether neighbouring outputs leave inputs between them unread: none is left out."""
        return False

    def output_size(self, size: int, *, round_up: bool = False) -> int:  # noqa: ARG002
        """Return the number of outputs that ``size`` input elements make; raises ``ShapeError`` where the padding leaves none."""
        places = (size - 1) * self.stride + self.extent + self.output_padding
        if places <= 2 * self.padding:
            raise ShapeError(
                f"found padding {self.padding} of {places} places; allowed: less than half of them"
            )
        return places - 2 * self.padding

    def least_input(self, places: int) -> int:
        """Return the fewest input elements that make so many outputs, at least one."""
        beyond = places + 2 * self.padding - self.extent - self.output_padding
        return 1 + max(0, -(-beyond // self.stride))

    def reads(self, low: Any, high: Any) -> tuple[Any, Any]:
        """Return the inputs whose windows reach outputs ``low`` to ``high - 1``; equal bounds if none does.

        Examples:
            >>> TransposedWindow(kernel=3, stride=2, padding=1).reads(0, 4)
            (0, 3)
        """
        return (low + self.padding - self.extent) // self.stride + 1, (
            high - 1 + self.padding
        ) // self.stride + 1

    def taps(self, size: int, places: Any) -> Any:
        """Return the input element that meets some places through each tap, -1 for none: ``[places, kernel]``.

        Examples:
            >>> TransposedWindow(kernel=3, stride=2, padding=1).taps(2, np.arange(3)).tolist()
            [[-1, 0, -1], [1, -1, 0], [-1, 1, -1]]
        """
        taps = np.arange(self.kernel) * self.dilation
        whole, rest = np.divmod(places[:, None] + self.padding - taps, self.stride)
        return _inside(np.where(rest == 0, whole, -1), size)

    def steps(self, read: Any, made: Any) -> Any:  # noqa: ARG002
        """Return the number of input elements: each is multiplied with all taps."""
        return read


def _inside(places: Any, size: int) -> Any:
    return np.where((places >= 0) & (places < size), places, -1)


class Routing(NamedTuple):
    """An even routing of positions to experts, by place alone, in the place of the largest scores.

    A *round* is a run of positions that fill one slot of each expert, so that a division of the positions is one of the slots.
    In every round each position goes to the next ``taken`` experts, from another first one for each sample and round.
    """

    experts: int
    taken: int

    @property
    def round(self) -> int:
        """The positions of a round, for each expert of which there is room for one.

        Raises:
            ShapeError: positions go to more experts than there are.

        Examples:
            >>> Routing(8, 2).round
            4
        """
        if self.taken > self.experts:
            raise ShapeError(
                f"found count {self.taken} for {self.experts} experts; allowed: at most {self.experts}"
            )
        return self.experts // self.taken

    def num_slots(self, positions: int) -> int:
        """Return the slots of each expert: one for each round, so that no position is dropped.

        Examples:
            >>> Routing(8, 2).num_slots(4096)
            1024
        """
        return -(-positions // self.round)

    def chosen(self, samples: Any, positions: Any, experts: Any) -> Any:
        """Return whether each position goes to each expert, ``[samples, positions, experts]``."""
        first = samples[:, None, None] + (positions // self.round)[None, :, None]
        place = (experts[None, None, :] - first) % self.experts
        return np.asarray(place // self.taken == (positions % self.round)[None, :, None])
