"""Shards of unequal size, over unlike device groups."""
