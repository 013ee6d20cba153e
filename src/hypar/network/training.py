"""The optimizers."""

from __future__ import annotations

OPTIMIZERS = {"sgd": 0, "momentum": 1, "adam": 2}
"""Numbers of optimizer state for each weight."""
