"""Sections of the page for the layer-block-wise pipeline (MLSP 2017)."""
