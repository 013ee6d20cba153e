"""Which chunks of gradients a plan takes."""
