"""ONNX graphs as torch modules, the way a torch user would run them."""
