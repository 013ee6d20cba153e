"""Rectified linear unit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hypar.execution.computing.elementwise import Elementwise

if TYPE_CHECKING:
    from hypar.execution.boxes import Array, Box
    from hypar.execution.computing.kernel import Kernel
    from hypar.network.layer import Layer


class Relu(Elementwise):
    """``max(0, x)``."""

    def value(self, layer: Layer, local: Array, box: Box) -> Array:
        """Return the positive part."""
        return np.maximum(local, 0.0)

    def slope(self, layer: Layer, local: Array, box: Box) -> Array:
        """Return one where the input is positive, else zero."""
        return np.heaviside(local, 0.0)


plugin: Kernel = Relu()
