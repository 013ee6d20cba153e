"""Searches over the levels, one file each."""
