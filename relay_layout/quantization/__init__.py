"""Quantized networks: from quantize and dequantize around operators to operators on integers."""

from relay_layout.quantization.conversion import to_integers

__all__ = ["to_integers"]
