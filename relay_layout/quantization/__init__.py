"""Quantized networks: from quantize and dequantize around operators to operators on integers."""

from relay_layout.quantization.integers import to_integers

__all__ = ["to_integers"]
