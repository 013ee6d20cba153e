"""A space, a cost and a search under a name, one file each."""
