"""What a network is: ops and their dims, the model file, shapes, the graph and its contraction; knows no devices."""
