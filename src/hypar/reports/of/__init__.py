"""The documents of results, one module a kind, found by name."""
