"""Published evaluations run again, one file a paper."""
