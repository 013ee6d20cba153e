"""A plan as text, one file a format."""
