"""The gradients of a plan in chunks: which are asked for, what the engine makes of them, and what a plan records."""

from __future__ import annotations

from hypar.chunking.choice import Ran, run_chunked
from hypar.chunking.stored import chunks_of
from hypar.plan.chunks import CHUNKS, Asked, ChunksRecord
from hypar.recipe import checked_chunks

__all__ = ["CHUNKS", "Asked", "ChunksRecord", "Ran", "checked_chunks", "chunks_of", "run_chunked"]
