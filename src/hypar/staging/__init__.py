"""Stages over the outermost split, and cuts inside each: the boundaries and the cuts found together."""

from __future__ import annotations

from hypar.staging.plans import staged_plan, stages_of
from hypar.staging.scores import score_of
from hypar.staging.search import BEST
from hypar.staging.stored import microbatch_step, stored_stages

__all__ = ["BEST", "microbatch_step", "score_of", "staged_plan", "stages_of", "stored_stages"]
