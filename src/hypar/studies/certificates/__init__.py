"""Certificates of plans that are proven optimal: numbers from which a lower bound follows without any search.

A problem is derived from the network and the plan's request alone, by formulas of its own (``problem``). A certificate has rounds; each
has a spanning tree of the layers, a message for every state of the layer above, and a floor for every tensor beside the tree.
``issue`` writes one, ``verify`` checks it. Neither imports a solver.
"""
