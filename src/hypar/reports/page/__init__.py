"""A plan as one HTML page, with a module for each section, and fragments of it for notebooks."""
