"""Models in their own formats to Relax modules."""

from relay_layout.frontend.loader import Params, load_model
from relay_layout.frontend.onnx import from_onnx
from relay_layout.frontend.relay import from_relay

__all__ = ["Params", "from_onnx", "from_relay", "load_model"]
