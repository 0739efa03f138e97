"""Import of TensorFlow Lite models."""

from relay_layout.frontend.tflite.model import from_tflite

__all__ = ["from_tflite"]
