"""Transposed convolution over height and width."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.execution.computing.convolution import Convolution

if TYPE_CHECKING:
    from hypar.execution.computing.kernel import Kernel

plugin: Kernel = Convolution()
