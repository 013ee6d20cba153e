"""The command line: options in, one call, one print."""
