"""Plans as tables for a terminal: their rows, their page, the notes below it."""
