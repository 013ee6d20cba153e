"""Gradients exchanged in chunks beside the backward phase: which chunks, and what a training step then takes."""

from hypar.overlaps.outcome import Chunk, Overlap
from hypar.overlaps.run import overlap_model

__all__ = ["Chunk", "Overlap", "overlap_model"]
