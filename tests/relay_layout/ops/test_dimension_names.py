"""What the dimensions of tensors are called: by the convolutions around them, across transpositions."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import relax

from relay_layout.graph import build_graph
from relay_layout.ops.dimension_names import DimensionNames
from tests.relax_modules import main_of

op = relax.op


def zeros(*shape: int) -> Any:
    return relax.const(np.zeros(shape, "float32"))


def names_of(build: Callable[[Any, Any], Any], *shape: int) -> dict[str, list[str]]:
    """By operator the names of its operands and results, of a network of one input."""
    x = relax.Var("x", relax.TensorType(shape, "float32"))
    with main_of(x) as builder:
        builder.result = build(builder.emit, x)
    graph = build_graph(builder.finalize()["main"])
    names = DimensionNames(graph)
    return {
        node.operator: [names.of(value) for value in (*node.operands, *node.results)] for node in graph.nodes
    }


def test_channels_keep_their_name_behind_a_transposition() -> None:
    def build(emit: Any, x: Any) -> Any:
        last = emit(op.permute_dims(emit(op.nn.conv2d(x, zeros(8, 3, 3, 3))), [0, 2, 3, 1]))
        scaled = emit(op.multiply(last, zeros(8)))
        return emit(op.mean(scaled, [1, 2]))

    assert names_of(build, 1, 3, 9, 9) == {
        "nn.conv2d": ["NCHW", "OIHW", "NCHW"],
        "permute_dims": ["NCHW", "NHWC"],
        "multiply": ["NHWC", "C", "NHWC"],
        "mean": ["NHWC", "NC"],
    }


def test_what_comes_before_a_convolution_is_called_as_it_calls_it() -> None:
    def build(emit: Any, x: Any) -> Any:
        first = emit(op.permute_dims(emit(op.nn.relu(x)), [0, 3, 1, 2]))
        return emit(op.nn.conv2d(first, zeros(8, 3, 3, 3)))

    assert names_of(build, 1, 9, 9, 3)["nn.relu"] == ["NHWC", "NHWC"]


def test_convolutions_of_both_layouts_name_their_own_sides() -> None:
    def build(emit: Any, x: Any) -> Any:
        first = emit(op.tanh(emit(op.nn.conv2d(x, zeros(8, 3, 1, 1)))))
        turned = emit(op.nn.relu(emit(op.permute_dims(first, [0, 2, 3, 1]))))
        return emit(op.nn.conv2d(turned, zeros(1, 1, 8, 4), data_layout="NHWC", kernel_layout="HWIO"))

    names = names_of(build, 1, 3, 9, 9)
    assert (names["tanh"], names["nn.relu"]) == (["NCHW"] * 2, ["NHWC"] * 2)


@pytest.mark.parametrize(("shape", "name"), [((2, 5), "NC"), ((2, 3, 4, 5), "NCHW"), ((1,) * 7, "")])
def test_what_no_convolution_reaches_has_the_usual_names(shape: tuple[int, ...], name: str) -> None:
    assert names_of(lambda emit, x: emit(op.tanh(x)), *shape) == {"tanh": [name, name]}
