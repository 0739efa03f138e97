"""Tuning at graph level: which kernels a model needs, and old AutoTVM logs in our terms."""
