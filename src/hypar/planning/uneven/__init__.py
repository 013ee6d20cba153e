"""Planning for heterogeneous device groups."""
