"""Stages over the outermost split, and cuts inside each: the boundaries and the cuts found together."""

from __future__ import annotations

from hypar.staging.plans import staged_plan
from hypar.staging.search import BEST

__all__ = ["BEST", "staged_plan"]
