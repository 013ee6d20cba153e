"""The nodes of a plan on a machine: a search decides the levels of identical devices, and what goes on below is asked of other nodes."""
