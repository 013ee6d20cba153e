"""Kernels, one file for each op: what a device computes of a layer from the elements that it holds."""
