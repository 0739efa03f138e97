"""Import of ONNX models."""

from relay_layout.frontend.onnx.model import from_onnx
from relay_layout.frontend.onnx.node import Node
from relay_layout.frontend.onnx.operators import register_converter

__all__ = ["Node", "from_onnx", "register_converter"]
