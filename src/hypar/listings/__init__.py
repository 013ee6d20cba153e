"""Everything a command lists besides a single plan: as a table for people, as plain data for programs."""
