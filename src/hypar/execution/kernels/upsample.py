"""Enlargement of an image by interpolation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hypar.execution.computing.resampling import Resampling

if TYPE_CHECKING:
    from hypar.execution.boxes import Array, Indices
    from hypar.execution.computing.kernel import Kernel
    from hypar.network.windows import Window


class Upsample(Resampling):
    """Each element repeated, or weighed by its distance. A nearest window meets one element, which has all the weight."""

    def weights(self, window: Window, outputs: Indices, taps: Indices, size: int) -> Array:
        """Return one less the distance from output to tap in input elements; those of one output add up to one."""
        # The opposite window of an input is centred on it, and so falls off to both sides from its middle tap.
        distance = np.abs(np.arange(window.kernel) - (window.kernel - 1) / 2) / window.stride
        weights = np.where(taps < 0, 0.0, 1 - distance)
        weighed: Array = weights / weights.sum(axis=1, keepdims=True)
        return weighed


plugin: Kernel = Upsample()
