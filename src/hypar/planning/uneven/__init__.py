"""Planning for unlike device groups."""
