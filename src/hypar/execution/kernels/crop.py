"""Crop of an image to its centre: windows of one element."""

from __future__ import annotations

from hypar.execution.kernels.base import Kernel, Resampling

plugin: Kernel = Resampling()
