"""Stages outside all levels, and cuts inside each: found together, run, and stored."""

from __future__ import annotations

from hypar.staging.plans import staged_plan, stages_of
from hypar.staging.scores import score_of
from hypar.staging.search import BEST
from hypar.staging.stored import microbatch_step, stored_stages

__all__ = ["BEST", "microbatch_step", "score_of", "staged_plan", "stages_of", "stored_stages"]
