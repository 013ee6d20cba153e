"""Data parallelism whose gradients are exchanged in chunks beside the backward phase."""
