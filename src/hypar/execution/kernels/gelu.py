"""Gaussian error linear unit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.execution.computing.elementwise import FUNCTIONS, Named

if TYPE_CHECKING:
    from hypar.execution.computing.kernel import Kernel

plugin: Kernel = Named(FUNCTIONS["gelu"])
