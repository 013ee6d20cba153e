"""Networks of other frameworks, read into model files: PyTorch modules, ONNX files and JAX functions."""
