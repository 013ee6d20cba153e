"""Measured times of the pieces of layers."""
