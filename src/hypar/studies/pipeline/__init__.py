"""Pipelines: a network divided into stages on one device each."""
