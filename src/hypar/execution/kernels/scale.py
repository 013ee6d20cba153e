"""Product of a tensor with one of fewer dims."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.execution.computing.products import Product

if TYPE_CHECKING:
    from hypar.execution.computing.kernel import Kernel

plugin: Kernel = Product()
