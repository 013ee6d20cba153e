"""Topologies, one file each."""
