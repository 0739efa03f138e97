"""Converters of PyTorch's operations to Relax, by family."""
