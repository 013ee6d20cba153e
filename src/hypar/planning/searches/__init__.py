"""Ways to go through the levels, one file each."""
