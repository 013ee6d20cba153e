"""Cost graphs of conventions under which a transfer depends on all choices of both layers."""
