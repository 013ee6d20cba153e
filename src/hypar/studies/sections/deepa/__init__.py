"""The page ``deepa``: its networks, plans and counts, and its sections."""
