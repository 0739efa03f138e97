"""Converters of PyTorch's operations to Relax, and rules that take operations apart, by family."""
