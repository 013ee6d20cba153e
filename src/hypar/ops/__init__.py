"""Ops: what each is over named dims, and what one device computes of it; one module a family, in ``families``."""
