"""What a choice is worth, one file each: graph and choices to a CostGraph."""
