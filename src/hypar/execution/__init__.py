"""Execution of training steps on arrays: kernels of every op, and a whole step on one device."""
