"""Ops, one file each."""
