"""Costs of choices, one plug-in each: from graph and choices to a CostGraph."""
