"""Spaces of the knobs of CPU kernels, each candidate with its estimated cost."""
