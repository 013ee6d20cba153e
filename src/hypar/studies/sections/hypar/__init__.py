"""Sections of the page for HyPar (HPCA 2019)."""
