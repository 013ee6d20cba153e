"""Shards of unequal size, over heterogeneous device groups."""
