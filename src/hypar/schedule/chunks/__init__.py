"""Closed forms of the exchange of gradients in chunks of layers."""
