"""The sections of those reproductions that are too long for one file, a folder a paper."""
