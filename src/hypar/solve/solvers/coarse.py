"""Search over all levels at once from coarse to fine: first how often a layer takes each choice, then in which order.

Idea: what the levels above leave of each tensor depends on how often each choice was made, not in which order; so counts
over a block of levels have a bound that each layer and each pair of layers reaches in some order. States above a known plan
leave, blocks are halved, and at single levels the bound is the cost. Recurrence: a least cost for each state of counts,
from level to level of a block; over the layers that of elimination.
Cost: states of counts, C(L + d - 1, d - 1) for L levels of d choices, then those that are left; their pairs.
Guarantee: the optimum where the bound closes, otherwise a plan and the bound. Ties are broken by the plan found first.
Reference: none known for the blocks; HyPar (HPCA 2019) has the greedy search over levels that it begins with.

It needs more than a cost graph: the joint search builds its problem from layers and levels.
"""

from __future__ import annotations

from hypar.solve.solvers.base import Levelled, Solver

plugin: Solver = Levelled(
    refusal="solver 'coarse': found bytes counted by products over levels, or one level at a time; allowed: "
    "--convention paper, --search joint"
)
