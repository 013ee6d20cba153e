"""Sigmoid linear unit."""

from __future__ import annotations

from hypar.execution.kernels.base import FUNCTIONS, Kernel, Named

plugin: Kernel = Named(FUNCTIONS["silu"])
