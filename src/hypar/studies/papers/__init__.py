"""Published evaluations run again, one file each."""
