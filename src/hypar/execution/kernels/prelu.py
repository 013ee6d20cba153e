"""Rectifier with trained slopes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hypar.execution.computing.trained import Trained

if TYPE_CHECKING:
    from hypar.execution.boxes import Array
    from hypar.execution.computing.kernel import Kernel


class Prelu(Trained):
    """The input where it is above 0, and times its slope elsewhere."""

    mean = 0.25

    def value(self, local: Array, trained: Array) -> Array:
        """Return the rectified input."""
        return np.where(np.isnan(local), np.nan, np.where(local > 0, local, trained * local))

    def slopes(self, local: Array, trained: Array) -> tuple[Any, Any]:
        """Return 1 or the slope, and 0 or the input."""
        above = local > 0
        return (
            np.where(np.isnan(local), np.nan, np.where(above, 1.0, trained)),
            np.where(np.isnan(local), np.nan, np.where(above, 0.0, local)),
        )


plugin: Kernel = Prelu()
