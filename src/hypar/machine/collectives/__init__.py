"""Algorithms of the collectives between the subgroups of a group, as messages that are routed later."""
