"""Search over all levels at once by counts: how often a layer takes each dim, not in which order.

Idea: where every level multiplies what the others leave, a plan's cost does not depend on the order of its levels, and
two layers meet best in a closed form of their counts. Recurrence: a least cost for each state of counts, from layer to layer;
in a block of branches also for each cell of the levels that one layer, the pivot, divides alike.
Cost: states of counts, C(L + d - 1, d - 1) for L equal levels of d dims, and their pairs.
Guarantee: the optimum where the bound closes, otherwise a plan and the bound. Ties are broken by the plan found first.
Reference: HyPar (HPCA 2019) has the greedy search over levels that this one replaces.

It needs more than a cost graph: the joint search builds its problem from layers and levels.
"""

from __future__ import annotations

from hypar.solve.solvers.base import Levelled, Solver

plugin: Solver = Levelled(
    refusal="solver 'counts': found costs that depend on the order of levels, or one level at a time; allowed: cost "
    "'volume' by 'moved' or 'fused', --search joint, one dim a level"
)
