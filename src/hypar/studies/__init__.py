"""Questions asked of many plans, or of one in detail; each file one question."""
