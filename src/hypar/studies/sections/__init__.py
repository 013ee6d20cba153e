"""Sections of the reproductions that are too long for one module, one package for each paper."""
