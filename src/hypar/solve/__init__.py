"""The cost graph, and every exact or bounded minimisation over it; plain numbers only."""
