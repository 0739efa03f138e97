"""What TVM's own converter of TensorFlow Lite cannot do: computed shapes, stored weights, complex numbers."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import relay_layout
from relay_layout.errors import ModelError

pytest.importorskip("tflite")

from tests.relay_layout.frontend.tflite.harness import IMAGE, NONE, RELU, SAME, randoms, reference, run
from tests.relay_layout.frontend.tflite.writer import TfliteFile

CONVOLUTION: Mapping[str, Any] = dict(
    Padding=SAME, StrideH=1, StrideW=1, DilationHFactor=1, DilationWFactor=1, FusedActivationFunction=NONE
)
SLICE: Mapping[str, Any] = dict(BeginMask=0, EndMask=0, EllipsisMask=0, NewAxisMask=0, ShrinkAxisMask=1)


def integers(file: TfliteFile, *values: int) -> int:
    return file.constant(np.array(values, "int32"))


def shape_of_it(file: TfliteFile, x: int) -> int:
    """Rows of all but the batch, whose extent is taken out of the shape."""
    shape = file.operator("SHAPE", [x], (4,), "ShapeOptions", "int32", OutType=2)
    bounds = [integers(file, 0), integers(file, 1), integers(file, 1)]
    batch = file.operator("STRIDED_SLICE", [shape, *bounds], (), "StridedSliceOptions", "int32", **SLICE)
    rest = file.constant(np.array(-1, "int32"))
    goal = file.operator("PACK", [batch, rest], (2,), "PackOptions", "int32", ValuesCount=2, Axis=0)
    return file.operator("RESHAPE", [x, goal], (2, 378), "ReshapeOptions")


def parts_of_the_shape(file: TfliteFile, x: int) -> int:
    shape = file.operator("SHAPE", [x], (4,), "ShapeOptions", "int32", OutType=2)
    sizes = integers(file, 1, 3)
    first = file.operator(
        "SPLIT_V",
        [shape, sizes, file.constant(np.array(0, "int32"))],
        (1,),
        "SplitVOptions",
        "int32",
        NumSplits=2,
    )
    file.operators[-1].outputs.append(file.tensor((3,), "int32"))
    goal = file.operator(
        "CONCATENATION", [first, integers(file, -1)], (2,), "ConcatenationOptions", "int32", Axis=0
    )
    return file.operator("RESHAPE", [x, goal], (2, 378), "ReshapeOptions")


def another_dimension(file: TfliteFile, x: int) -> int:
    return file.operator("EXPAND_DIMS", [x, integers(file, -2)], (2, 9, 7, 1, 6), "ExpandDimsOptions")


def weights_in_halves(file: TfliteFile, x: int) -> int:
    halves = file.constant(randoms(5, 3, 3, 6).astype("float16"))
    weight = file.operator("DEQUANTIZE", [halves], (5, 3, 3, 6), "DequantizeOptions")
    operands = [x, weight, file.constant(randoms(5))]
    return file.operator("CONV_2D", operands, (2, 9, 7, 5), "Conv2DOptions", **CONVOLUTION)


def spectrogram(file: TfliteFile, x: int) -> int:
    """Of rows of four numbers, the real parts."""
    rows = file.operator("RESHAPE", [x, integers(file, 7, 27, 1, 4)], (7, 27, 1, 4), "ReshapeOptions")
    turned = file.operator(
        "RFFT2D", [rows, integers(file, 1, 4)], (7, 27, 1, 3), "Rfft2dOptions", "complex64"
    )
    flat = file.operator("SQUEEZE", [turned], (7, 27, 3), "SqueezeOptions", "complex64", SqueezeDims=[-2])
    return file.operator("CAST", [flat], (7, 27, 3), "CastOptions", InDataType=8, OutDataType=0)


@pytest.mark.parametrize(
    "build", [shape_of_it, parts_of_the_shape, another_dimension, weights_in_halves, spectrogram]
)
def test_operators_agree(build: Callable[[TfliteFile, int], int], tmp_path: Path) -> None:
    file = TfliteFile()
    build(file, file.input(IMAGE))
    data, image = file.finish(), randoms(*IMAGE)
    (wanted,) = reference(data, [image])
    (output,) = run(data, [image], tmp_path)
    np.testing.assert_allclose(output, wanted, rtol=1e-4, atol=1e-4)


def test_nothing_is_left_of_what_is_constant(tmp_path: Path) -> None:
    file = TfliteFile()
    weights_in_halves(file, file.input(IMAGE))
    (tmp_path / "model.tflite").write_bytes(file.finish())
    text = relay_layout.from_tflite(tmp_path / "model.tflite").script()
    assert "astype" not in text and "permute_dims" not in text


def stored(weight: np.ndarray, axis: int | None) -> tuple[np.ndarray, dict[str, Any]]:
    """Weights in bytes, with a scale for all or for each index along an axis."""
    others = tuple(place for place in range(weight.ndim) if place != axis) if axis is not None else None
    scale = np.abs(weight).max(axis=others, keepdims=axis is not None) / 127
    scales = np.atleast_1d(scale.reshape(-1)).tolist()
    quantization = {"scales": scales, "zero_points": [0] * len(scales), "axis": axis or 0}
    return np.round(weight / scale).astype("int8"), quantization


@pytest.mark.parametrize(
    ("code", "shape", "axis", "options"),
    [
        ("CONV_2D", (5, 3, 3, 6), None, "Conv2DOptions"),
        ("CONV_2D", (5, 3, 3, 6), 0, "Conv2DOptions"),
        ("DEPTHWISE_CONV_2D", (1, 3, 3, 6), None, "DepthwiseConv2DOptions"),
        ("DEPTHWISE_CONV_2D", (1, 3, 3, 6), 3, "DepthwiseConv2DOptions"),
        ("FULLY_CONNECTED", (5, 6), None, "FullyConnectedOptions"),
    ],
)
def test_weights_in_bytes_are_taken_for_real_numbers(
    code: str, shape: tuple[int, ...], axis: int | None, options: str, tmp_path: Path
) -> None:
    attributes = {
        "CONV_2D": CONVOLUTION,
        "DEPTHWISE_CONV_2D": {**CONVOLUTION, "DepthMultiplier": 1},
        "FULLY_CONNECTED": {"FusedActivationFunction": RELU, "KeepNumDims": True},
    }[code]
    channels = shape[-1] if shape[0] == 1 else shape[0]
    integer, quantization = stored(randoms(*shape), axis)
    scales = np.array(quantization["scales"], "float32")
    broadcast = scales.reshape([-1 if place == axis else 1 for place in range(len(shape))])
    outputs = {}
    for name in ("bytes", "numbers"):
        file = TfliteFile()
        x = file.input(IMAGE)
        real = file.constant((integer * broadcast).astype("float32"))
        weight = file.constant(integer, **quantization) if name == "bytes" else real
        operands = [x, weight, file.constant(randoms(channels))]
        file.operator(code, operands, (*IMAGE[:3], channels), options, **attributes)
        data, image = file.finish(), randoms(*IMAGE)
        outputs[name] = run(data, [image], tmp_path) if name == "bytes" else reference(data, [image])
    np.testing.assert_allclose(outputs["bytes"][0], outputs["numbers"][0], rtol=1e-4, atol=1e-4)


def test_a_shape_that_depends_on_data_is_refused(tmp_path: Path) -> None:
    file = TfliteFile()
    x = file.input(IMAGE)
    file.operator("EXPAND_DIMS", [x, file.input((1,), "int32")], (1, *IMAGE), "ExpandDimsOptions")
    (tmp_path / "model.tflite").write_bytes(file.finish())
    with pytest.raises(ModelError) as caught:
        relay_layout.from_tflite(tmp_path / "model.tflite")
    assert str(caught.value).endswith(
        "cannot be imported: tensor 't1' must be a constant: what depends on data cannot give a shape"
    )


def test_state_between_calls_is_refused(tmp_path: Path) -> None:
    file = TfliteFile()
    variable = file.operator("VAR_HANDLE", [], (), "VarHandleOptions", "resource")
    file.operator("ASSIGN_VARIABLE", [variable, file.input(IMAGE)], ())
    file.operators[-1].outputs.clear()
    file.outputs = [file.inputs[0]]
    (tmp_path / "model.tflite").write_bytes(file.finish())
    with pytest.raises(ModelError) as caught:
        relay_layout.from_tflite(tmp_path / "model.tflite")
    assert str(caught.value).endswith(
        "cannot be imported: ASSIGN_VARIABLE keeps state between calls: convert the model with state as "
        "inputs and outputs"
    )
