"""Exports: the pieces of a plan as files of other tools, a plug-in for each format."""
