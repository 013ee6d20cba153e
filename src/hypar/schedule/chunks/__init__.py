"""The exchange of gradients in chunks of layers, as closed forms."""
