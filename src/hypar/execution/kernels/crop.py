"""Crop of an image to its centre: windows of one element."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.execution.computing.resampling import Resampling

if TYPE_CHECKING:
    from hypar.execution.computing.kernel import Kernel

plugin: Kernel = Resampling()
