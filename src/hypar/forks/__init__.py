"""Forks: splits of a group into unlike sides, each with a share of its own."""
