"""Measured times of the shards of layers."""
