"""Searches over a cost graph, one file each."""
