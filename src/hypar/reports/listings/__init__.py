"""Tables and plain data for the output of the commands."""
