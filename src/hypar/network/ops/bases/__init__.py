"""The bases of ops of one kind."""
