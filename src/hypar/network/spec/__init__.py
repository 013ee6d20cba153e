"""The model file: its schema, its loading and the expansion of its blocks."""
