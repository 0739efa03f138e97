"""Activations against numpy."""

import numpy as np
from relay_harness import evaluate


def test_activations() -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype("float32")
    relu, leaky = evaluate("(nn.relu(%x), nn.leaky_relu(%x))", x=x)
    np.testing.assert_allclose(relu, np.maximum(x, 0))
    np.testing.assert_allclose(leaky, np.where(x > 0, x, 0.25 * x), rtol=1e-6)
