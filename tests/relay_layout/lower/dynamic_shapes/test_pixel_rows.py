"""Pointwise convolutions of images of any size: ONNX Runtime's numbers, and one kernel with what follows."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.relay_layout.lower.open_images import agree

SIZES = [(1, 28, 28), (2, 5, 3), (3, 19, 33), (1, 1, 1), (1, 1, 2)]
"""Batch, rows and columns."""

NETWORKS = {
    "bias and activation": "c = Conv (x, w, b) y = Relu (c)",
    "a residual": "c = Conv (x, w, b) d = Relu (c) e = Conv (d, v) f = Add (e, d) y = Relu (f)",
    "images between": (
        "c = Conv (x, w, b) d = Relu (c) e = MaxPool <kernel_shape=[2,2], pads=[1,1,1,1]> (d) y = Conv (e, v)"
    ),
    "a factor for each image": (
        "c = Conv (x, w, b) m = GlobalAveragePool (c) s = Sigmoid (m) f = Mul (c, s) g = Add (f, c) "
        "y = Conv (g, v)"
    ),
    "strides": "c = Conv <strides=[2,3]> (x, w, b) y = Conv (c, v)",
    "groups": "c = Conv (x, w, b) y = Conv <group=4> (c, u)",
}


def network(body: str, channels: int, outputs: int) -> Any:
    rng = np.random.default_rng(0)
    header = '<ir_version: 8, opset_import: ["" : 17]> rows'
    model = onnx.parser.parse_model(f"{header} (float[n,{channels},h,w] x) => (float y) {{ {body} }}")
    shapes = {
        "w": (outputs, channels, 1, 1),
        "b": (outputs,),
        "v": (outputs, outputs, 1, 1),
        "u": (outputs, outputs // 4, 1, 1),
    }
    for name, shape in shapes.items():
        array = rng.standard_normal(shape).astype("float32")
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return model


@pytest.mark.parametrize("channels", [(8, 24), (3, 20), (16, 64)], ids=str)
@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name: str, channels: tuple[int, int], tmp_path: Path) -> None:
    report = agree(network(NETWORKS[name], *channels), channels[0], tmp_path, SIZES)
    assert report["kernels"]["default"] >= (1 if name == "groups" else name.count("y") + 1)


def test_what_follows_is_one_kernel(tmp_path: Path) -> None:
    report = agree(network(NETWORKS["a residual"], 16, 64), 16, tmp_path, SIZES)
    convolutions = [each["function"] for each in report["calls"] if "conv2d" in each["function"]]
    assert len(convolutions) == 2
    assert "add" in convolutions[1] and "relu" in convolutions[1]


@pytest.mark.parametrize("layout", ["NCHW", "NCHW8c"])
def test_other_layouts(layout: str, tmp_path: Path) -> None:
    agree(network(NETWORKS["a residual"], 16, 64), 16, tmp_path, SIZES, desired_layout=layout)
