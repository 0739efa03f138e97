"""Norms of data whose channels are as many as an input's sizes say."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import relay_layout
from relay_layout.errors import InputError, ModelError
from tests.relay_layout.frontend.onnx.test_counted import Feeds, check, model_of

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


def newer(model: Any, opset: int) -> Any:
    model.opset_import[0].version = opset
    return model


def scaled(shapes: list[tuple[int, ...]], numbers: list[int], text: str) -> Feeds:
    """Data, scales and biases, of so many numbers each."""
    sizes = zip(shapes, numbers, strict=True)
    return [
        {
            name: RANDOM.standard_normal(of).astype("float32")
            for name, of in zip(text, (shape, own, own), strict=True)
        }
        for shape, own in sizes
    ]


IMAGES = [(2, 4, 5, 3), (1, 2, 3, 1), (1, 6, 7, 2)]
CHANNELS = [4, 2, 6]


@pytest.mark.parametrize("own", ["c", "k"])
def test_instances_of_any_number_of_channels(own: str, tmp_path: Path) -> None:
    inputs = f"float[n,c,h,w] x, float[{own}] s, float[{own}] b"
    model = model_of("y = InstanceNormalization(x, s, b)", inputs, "float[n,c,h,w] y")
    check(model, scaled(IMAGES, CHANNELS, "xsb"), tmp_path, 1e-5)


@pytest.mark.parametrize(("opset", "own"), [(18, [2, 2, 2]), (21, CHANNELS)])
def test_groups_of_any_number_of_channels(opset: int, own: list[int], tmp_path: Path) -> None:
    """Scales are those of groups at first, and of channels later."""
    inputs = "float[n,c,h,w] x, float[k] s, float[k] b"
    nodes = "y = GroupNormalization <num_groups=2> (x, s, b)"
    model = newer(model_of(nodes, inputs, "float[n,c,h,w] y"), opset)
    session = check(model, scaled(IMAGES, own, "xsb"), tmp_path, 1e-5)
    with pytest.raises(InputError, match=r"x\.shape\[1\] % 2 == 0, got x\.shape\[1\] = 3"):
        session.run(scaled([(1, 3, 2, 2)], [2 if opset == 18 else 3], "xsb")[0])


def test_statistics_of_other_channels_are_refused() -> None:
    constants = {"s": np.ones(3, "float32"), "b": np.ones(3, "float32")}
    model = model_of("y = InstanceNormalization(x, s, b)", "float[n,4,h] x", "float[n,4,h] y", constants)
    with pytest.raises(ModelError) as error:
        relay_layout.compile(model)
    assert str(error.value).endswith("(InstanceNormalization) has [3] numbers for [4] channels")


@pytest.mark.parametrize("axis", [1, -1])
def test_layers_of_as_many_as_there_are_scales(axis: int, tmp_path: Path) -> None:
    constants = {"s": np.arange(7, dtype="float32"), "b": np.ones(7, "float32")}
    nodes = f"y = LayerNormalization <axis={axis}> (x, s, b)"
    model = model_of(nodes, "float[n,t,c] x", "float[n,t,c] y", constants)
    feeds = [{"x": RANDOM.standard_normal(shape).astype("float32")} for shape in ((2, 3, 7), (1, 1, 7))]
    session = check(model, feeds, tmp_path, 1e-5)
    with pytest.raises(InputError, match="expected float32 \\[n, t, 7\\], got float32 \\[2, 3, 1\\]"):
        session.run({"x": np.zeros((2, 3, 1), "float32")})
