"""Views of results, by the name of the result: their rows, their part of a notebook, and their picture."""
