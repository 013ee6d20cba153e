"""Networks: ops and their dims, the model file, shapes, the graph and its contraction; independent of devices."""
