"""The report of a plan: a module for each section, and the page around them."""
