"""Reductions of a cost graph that keep its optimum, and lower bounds for graphs too large to reduce."""
