"""The elements that an execution moves: sums of products of one factor for each level (``docs/algebra.md``)."""
