"""Tests of ``hypar.execution``."""
