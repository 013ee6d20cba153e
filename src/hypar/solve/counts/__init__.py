"""Search over all levels at once by counts: how often a layer takes each of its options, not in which order.

It holds where a level multiplies what the others leave, by a factor that the options of one layer or of two decide. A
cost is then a sum of products over the levels, which do not depend on the levels' order; between two layers they depend on
which options meet at a level, and the best meeting of given counts has a closed form.
Cost: states of counts, C(L + d - 1, d - 1) for L equal levels of d dims, and their pairs; in a block of branches also of each cell of
the levels that one layer, the pivot, divides alike.
Guarantee: the optimum where the bound closes, otherwise a plan and the bound. Ties are broken by the plan found first.
"""
