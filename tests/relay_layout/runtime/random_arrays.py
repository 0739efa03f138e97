"""Inputs of networks."""

import numpy as np


def randoms(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype="float32")
