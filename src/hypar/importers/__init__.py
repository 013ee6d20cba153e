"""Networks of other frameworks, read into model files: PyTorch modules, ONNX files, JAX functions and Hugging Face's configs."""
