"""The elements that an execution moves, as products of one factor for each level.

``R(h) = A (f_0 ... f_h - g_0 ... g_h)`` elements of a tensor of A elements enter the groups of level h from outside,
and ``R(h) - R(h - 1)`` are received at level h. A factor is the sum over the devices of a level of the fraction that
each needs, holds, or has terms of. Which elements a device needs and holds at one level is independent of the other
levels, as a layer may take its batch and its channels in the order in which they come.
"""
