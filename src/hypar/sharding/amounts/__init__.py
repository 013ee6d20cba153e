"""The elements that an execution moves, as products of one factor for each level (``docs/algebra.md``).

``R(h) = A (f_0 ... f_h - g_0 ... g_h)`` of a tensor of A enter the groups of level h, ``R(h) - R(h - 1)`` of them there.
"""
