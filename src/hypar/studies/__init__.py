"""Studies of many plans, or of one in detail; one module for each."""
