"""A fixed routing of positions to experts, in place of the largest scores: an even one, by place alone.

In every round of positions each goes to the next ``count`` experts, from another first one for each sample and round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.network.routing import round_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hypar.execution.boxes import Indices


class Routing(NamedTuple):
    """An even routing.

    Attributes:
        experts: number of experts.
        taken: experts of each position.
    """

    experts: int
    taken: int

    @property
    def round(self) -> int:
        """The positions that fill one slot of each expert."""
        return round_of(self.experts, self.taken)

    def slots(self, positions: Indices) -> Indices:
        """Return the slot of each position, the same at all its experts."""
        return np.asarray(positions // self.round)

    def chosen(self, samples: Indices, positions: Indices, experts: Indices) -> NDArray[np.bool_]:
        """Return whether each position goes to each expert, ``[samples, positions, experts]``."""
        first = samples[:, None, None] + self.slots(positions)[None, :, None]
        place = (experts[None, None, :] - first) % self.experts
        return np.asarray(place // self.taken == (positions % self.round)[None, :, None])
