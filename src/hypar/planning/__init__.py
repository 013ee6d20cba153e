"""From a request to a plan, and from a stored plan back to its step: the only place that decides."""
