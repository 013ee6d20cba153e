"""The gradients of a plan in chunks: which are asked for, what the engine makes of them, and what a plan records."""

from __future__ import annotations

from hypar.chunking.asked import CHUNKS, Asked, checked_chunks
from hypar.chunking.choice import Ran, run_chunked
from hypar.chunking.record import ChunksRecord
from hypar.chunking.stored import chunks_of

__all__ = ["CHUNKS", "Asked", "ChunksRecord", "Ran", "checked_chunks", "chunks_of", "run_chunked"]
