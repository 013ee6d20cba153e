"""How devices are wired, one file a manner of wiring."""
