"""Planning in pipeline stages, each cut separately."""
