"""Search over all levels at once by counts: how often a layer takes each of its options, not in which order.

It holds where a level multiplies what the others leave, by a factor that the options of one layer or of two decide. A
cost is then a sum of products over the levels, which do not depend on the levels' order; between two layers they depend on
which options meet at a level, and the best meeting of given counts has a closed form.
"""
