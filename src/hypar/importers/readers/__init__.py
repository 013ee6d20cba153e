"""Readers of files of other formats, each under the ending of its files."""
