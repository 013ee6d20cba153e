"""Planning in stages, each cut by itself."""
