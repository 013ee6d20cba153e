"""Searches over a CostGraph, one file each."""
