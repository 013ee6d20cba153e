"""How fast a device computes, one file each."""
