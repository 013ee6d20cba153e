"""Compute models, one file each."""
