"""The ways of the joint search: by counts, from coarse to fine, over tuples, and level by level where nothing else fits."""
