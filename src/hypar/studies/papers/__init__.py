"""Published evaluations, reproduced; one module for each."""
