"""Cost graphs of a network: of one level, of several at once, and as counts of levels."""
