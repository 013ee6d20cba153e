"""Strategies: a space, a cost and a search under one name, one file each."""
