"""Normalisation by the root of the mean square."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.execution.computing.statistics import Normalised

if TYPE_CHECKING:
    from hypar.execution.computing.kernel import Kernel

plugin: Kernel = Normalised()
