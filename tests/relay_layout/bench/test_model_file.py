"""Fixing shapes and making inputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

pytest.importorskip("onnx")

from onnx import TensorProto, helper, save

from relay_layout.bench.model_file import (
    fix_input_shapes,
    is_quantized,
    known_shapes,
    make_inputs,
    open_images,
)
from relay_layout.errors import InputError, ModelError

WriteRelu = Callable[..., Path]


def test_a_model_with_fixed_shapes_is_used_as_it_is(relu_model: WriteRelu, tmp_path: Path) -> None:
    path = relu_model(1, 3, 4)
    assert fix_input_shapes(path, {}, tmp_path) == path


def test_an_open_batch_becomes_one(relu_model: WriteRelu, tmp_path: Path) -> None:
    path = fix_input_shapes(relu_model("N", 3, 4), {}, tmp_path)
    assert path == tmp_path / "relu.static.onnx"
    assert make_inputs(path)["x"].shape == (1, 3, 4)


@pytest.mark.parametrize("batch", [0, -1])
def test_zero_and_negative_sizes_count_as_open(relu_model: WriteRelu, tmp_path: Path, batch: int) -> None:
    path = fix_input_shapes(relu_model(batch, 3), {}, tmp_path)
    assert make_inputs(path)["x"].shape == (1, 3)


def test_given_shapes(relu_model: WriteRelu, tmp_path: Path) -> None:
    path = fix_input_shapes(relu_model("N", 3, "H"), {"x": (2, 3, 7)}, tmp_path)
    assert make_inputs(path)["x"].shape == (2, 3, 7)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({}, r"input 'x' has open dimensions \[\?, 3, \?\]: give its shape with --input-shape x:1,"),
        ({"x": (1, 4, 7)}, r"input 'x' is declared \[\?, 3, \?\], which \[1, 4, 7\] does not fit"),
        ({"x": (1, 3)}, r"which \[1, 3\] does not fit"),
        ({"z": (1, 3, 7)}, "no input 'z'; its inputs are x"),
    ],
)
def test_shapes_that_do_not_do(
    relu_model: WriteRelu, tmp_path: Path, shapes: dict[str, tuple[int, ...]], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        fix_input_shapes(relu_model("N", 3, "H"), shapes, tmp_path)


def test_images_of_any_size(relu_model: WriteRelu, tmp_path: Path) -> None:
    path = relu_model(1, 3, 8, 8)
    opened = open_images(path, tmp_path)
    assert opened == tmp_path / "relu.open.onnx"
    assert known_shapes(path) == {"x": [1, 3, 8, 8]} and known_shapes(opened) == {}
    fixed = fix_input_shapes(opened, {"x": (2, 3, 5, 7)}, tmp_path)
    assert make_inputs(fixed)["x"].shape == (2, 3, 5, 7)


def test_texts_of_any_length(tmp_path: Path) -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> text (int64[1,5] ids, float[1,5] mask) => (float y) '
    model = onnx.parser.parse_model(text + "{ c = Cast <to=1> (ids) y = Mul (c, mask) }")
    onnx.save(model, tmp_path / "text.onnx")
    opened = open_images(tmp_path / "text.onnx", tmp_path)
    fixed = fix_input_shapes(opened, {"ids": (2, 7), "mask": (2, 7)}, tmp_path)
    assert {name: array.shape for name, array in make_inputs(fixed).items()} == {
        "ids": (2, 7),
        "mask": (2, 7),
    }


def test_what_a_model_leaves_open_stays(relu_model: WriteRelu, tmp_path: Path) -> None:
    path = relu_model("N", 3, 8, 8)
    assert open_images(path, tmp_path) == path


def test_a_model_without_images_is_refused(relu_model: WriteRelu, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no input has 3 to 5 dimensions, those of a signal"):
        open_images(relu_model(1, 3), tmp_path)


def test_inputs_are_the_same_every_time(relu_model: WriteRelu) -> None:
    path = relu_model(2, 3)
    np.testing.assert_array_equal(make_inputs(path)["x"], make_inputs(path)["x"])


@pytest.mark.parametrize(
    ("data_type", "dtype", "largest"),
    [
        (TensorProto.FLOAT16, np.float16, 6),
        (TensorProto.UINT8, np.uint8, 255),
        (TensorProto.INT64, np.int64, 1),
        (TensorProto.BOOL, np.bool_, 1),
    ],
)
def test_inputs_have_the_model_s_type(
    relu_model: WriteRelu, data_type: int, dtype: type, largest: int
) -> None:
    array = make_inputs(relu_model(100, 10, data_type=data_type))["x"]
    assert array.dtype == dtype
    assert array.astype(float).max() <= largest
    assert array.any()


def test_an_input_of_strings_is_refused(relu_model: WriteRelu) -> None:
    with pytest.raises(ModelError, match="input 'x' has type object"):
        make_inputs(relu_model(2, data_type=TensorProto.STRING))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"none\.onnx: no such file"):
        make_inputs(tmp_path / "none.onnx")
    (tmp_path / "broken.onnx").write_bytes(b"\xff\xff\xff")
    with pytest.raises(ModelError, match=r"broken\.onnx: not a readable ONNX model"):
        make_inputs(tmp_path / "broken.onnx")


@pytest.mark.parametrize(
    ("operator", "quantized"),
    [("Relu", False), ("QuantizeLinear", True), ("QLinearConv", True), ("DynamicQuantizeMatMul", True)],
)
def test_quantized_models_are_known_by_their_operators(
    tmp_path: Path, operator: str, quantized: bool
) -> None:
    graph = helper.make_graph([helper.make_node(operator, ["x"], ["y"])], "graph", [], [])
    save(helper.make_model(graph), tmp_path / "model.onnx")
    assert is_quantized(tmp_path / "model.onnx") is quantized
