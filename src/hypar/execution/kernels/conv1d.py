"""Convolution along the width of an image of one row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.execution.computing.convolution import Convolution

if TYPE_CHECKING:
    from hypar.execution.computing.kernel import Kernel

plugin: Kernel = Convolution()
