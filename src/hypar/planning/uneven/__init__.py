"""The nodes of a plan: levels of identical devices, and uneven splits of heterogeneous device groups above them."""
