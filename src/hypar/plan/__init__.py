"""The plan file: its records, their checks and the difference of two plans; nothing is decided or computed here."""
