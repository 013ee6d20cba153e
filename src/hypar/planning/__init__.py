"""Make a plan of a request, and rebuild the step of a stored plan: the only package that decides."""
