"""Import of ONNX models."""

from relay_layout.frontend.onnx.model import from_onnx

__all__ = ["from_onnx"]
