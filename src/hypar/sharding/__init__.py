"""Shards of tensors under a choice, and the elements that must then move; knows no seconds."""
