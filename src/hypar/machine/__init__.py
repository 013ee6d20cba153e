"""Machines, and how long n flop or n bytes take on them; knows no plan."""
