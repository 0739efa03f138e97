"""Norms of data whose channels are as many as an input's sizes say."""

from pathlib import Path

import numpy as np

from tests.relay_layout.frontend.onnx.test_counted import check, model_of

RANDOM = np.random.default_rng(4)


def test_statistics_of_a_number_that_sizes_say(tmp_path: Path) -> None:
    """As Keras writes layer norm: a batch norm whose channels are rows, counted from the shape."""
    nodes = """
        flat = Reshape(x, four)  sizes = Shape <end=2> (x)  rows = ReduceProd <axes=[0]> (sizes)
        zero = ConstantOfShape(rows)  s = Add(zero, part)  y = BatchNormalization(flat, s, zero, zero, s)
        """
    constants = {"four": np.array([1, -1, 4, 1]), "part": np.array([0.25], "float32")}
    model = model_of(nodes, "float[N,T,4] x", "float[1,M,4,1] y", constants)
    feeds = [{"x": RANDOM.standard_normal(shape).astype("float32")} for shape in ((2, 3, 4), (1, 5, 4))]
    check(model, feeds, tmp_path)
