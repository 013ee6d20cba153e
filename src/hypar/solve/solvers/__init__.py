"""Solvers of a cost graph, one file each."""
