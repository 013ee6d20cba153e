"""The ways of the joint search: by counts, over tuples, and level by level where nothing else fits."""
