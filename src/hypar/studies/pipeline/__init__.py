"""A network as a pipeline of stages on one device each."""
