"""Extents that a PyTorch program leaves open: what its guards, views and operations say of them."""
