"""The choice of the chunks in which a plan exchanges gradients."""
