"""Mapping of a layer to an array of processing elements with a buffer."""
