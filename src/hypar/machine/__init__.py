"""What a machine is, and how long n flop or n bytes take on it; knows no plan."""
