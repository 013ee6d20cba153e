"""The first waist: the cost graph, and every exact or bounded minimisation over plain numbers."""
