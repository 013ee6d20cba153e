"""Transposed convolution over height and width."""

from __future__ import annotations

from hypar.execution.kernels.base import Convolution, Kernel

plugin: Kernel = Convolution()
