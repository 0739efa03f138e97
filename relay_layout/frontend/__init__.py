"""Models in their own formats to Relax modules."""

from relay_layout.frontend.loader import Model, Params, load_model
from relay_layout.frontend.onnx import from_onnx
from relay_layout.frontend.relay import from_relay
from relay_layout.frontend.tflite import from_tflite
from relay_layout.frontend.torch import from_torch

__all__ = ["Model", "Params", "from_onnx", "from_relay", "from_tflite", "from_torch", "load_model"]
