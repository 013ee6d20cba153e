"""Stages over the outermost split, and cuts inside each: the boundaries and the cuts found together."""

from __future__ import annotations

from hypar.staging.records import splits_of, staged_claim, stages_of
from hypar.staging.running import Staging
from hypar.staging.scores import score_of
from hypar.staging.search import BEST, pins_of, plan_stages

__all__ = ["BEST", "Staging", "pins_of", "plan_stages", "score_of", "splits_of", "staged_claim", "stages_of"]
