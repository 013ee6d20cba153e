"""Plans as text, one module for each format."""
