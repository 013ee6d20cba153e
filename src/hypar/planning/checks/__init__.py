"""Checks of what is asked for."""
