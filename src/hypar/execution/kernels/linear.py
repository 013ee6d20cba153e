"""Fully connected layer, over a vector or over every position of named dims."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.execution.computing.matrices import Matrices

if TYPE_CHECKING:
    from hypar.execution.computing.kernel import Kernel

plugin: Kernel = Matrices()
