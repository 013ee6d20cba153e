"""Data parallelism with gradients exchanged in chunks beside the backward phase."""
