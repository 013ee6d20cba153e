"""Sections of the page for AccPar (HPCA 2020)."""
