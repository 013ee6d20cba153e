"""The tables and the data of the commands."""
