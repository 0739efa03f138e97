"""Models in their own formats to Relax modules."""

from relay_layout.frontend.loader import load_model
from relay_layout.frontend.onnx import from_onnx

__all__ = ["from_onnx", "load_model"]
