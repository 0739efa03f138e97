"""Norms of data whose channels are as many as an input's sizes say."""

from pathlib import Path

import numpy as np

from tests.relay_layout.frontend.onnx.test_counted import check, model_of

RANDOM = np.random.default_rng(4)


def test_statistics_of_an_unknown_number(tmp_path: Path) -> None:
    """As Keras writes layer norm: a batch norm whose channels are the rows, with statistics made of them."""
    nodes = """
        flat = Reshape(x, four)  sums = ReduceSum <keepdims=0> (flat, axes)  m = Mul(sums, part)
        shape = Shape(m)  zero = ConstantOfShape(shape)  s = Add(zero, part)
        y = BatchNormalization(flat, s, zero, m, s)
        """
    constants = {
        "four": np.array([1, -1, 4, 1]),
        "axes": np.array([0, 2, 3]),
        "part": np.array([0.25], "float32"),
    }
    model = model_of(nodes, "float[N,T,4] x", "float[1,M,4,1] y", constants)
    # Multiples of an eighth, whose means are exact.
    feeds = [{"x": RANDOM.integers(-9, 9, shape).astype("float32") / 8} for shape in ((2, 3, 4), (1, 5, 4))]
    check(model, feeds, tmp_path)
