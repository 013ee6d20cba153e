"""The command line: it reads options, calls the library and prints the result."""
