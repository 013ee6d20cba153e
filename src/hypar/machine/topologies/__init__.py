"""How devices are linked, one file each."""
