"""Planning a mixed machine: a tree of forks with groups of like devices at its leaves."""

from __future__ import annotations

from hypar.branches.records import claim_of, like_split, splits_of
from hypar.branches.search import plan_branches, solver_for
from hypar.branches.stored import branch_of
from hypar.branches.tree import Branch, Branching, Leaf, lanes_of

__all__ = [
    "Branch",
    "Branching",
    "Leaf",
    "branch_of",
    "claim_of",
    "lanes_of",
    "like_split",
    "plan_branches",
    "solver_for",
    "splits_of",
]
