"""What a report of a plan shows beyond its record: a module for each amount, and one that gathers them."""
