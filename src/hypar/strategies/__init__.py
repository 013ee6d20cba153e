"""Strategies, one file each: a space, a cost and a search under a name."""
