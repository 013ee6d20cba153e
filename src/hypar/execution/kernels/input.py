"""The input of a network: a device holds what it needs of the data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hypar.execution.computing.elementwise import Elementwise

if TYPE_CHECKING:
    from hypar.execution.boxes import Array, Box
    from hypar.execution.computing.kernel import Kernel
    from hypar.network.layer import Layer


class Input(Elementwise):
    """The data as they are."""

    def value(self, layer: Layer, local: Array, box: Box) -> Array:
        """Return the data."""
        return local

    def slope(self, layer: Layer, local: Array, box: Box) -> Array:
        """Return one."""
        return np.ones(local.shape)


plugin: Kernel = Input()
