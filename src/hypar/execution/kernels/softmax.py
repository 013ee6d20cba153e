"""Softmax over the channels, or over named dims."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.execution.computing.statistics import Shares

if TYPE_CHECKING:
    from hypar.execution.computing.kernel import Kernel

plugin: Kernel = Shares()
