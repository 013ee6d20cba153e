"""Cost graphs of a network, by the convention under which transfers are counted."""
