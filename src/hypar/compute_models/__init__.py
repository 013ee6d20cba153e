"""How long a device computes, one file a manner of computing."""
