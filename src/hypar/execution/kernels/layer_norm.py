"""Layer normalisation."""

from __future__ import annotations

from hypar.execution.kernels.base import Kernel, Normalised

plugin: Kernel = Normalised()
