"""Operators of TensorFlow Lite for which TVM's own converter has nothing that runs, or other numbers."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import relay_layout
from relay_layout.errors import ModelError

pytest.importorskip("tflite")

from tests.relay_layout.frontend.tflite.harness import IMAGE, RELU, RELU6, SAME, randoms, reference, run
from tests.relay_layout.frontend.tflite.writer import TfliteFile

BYTES: dict[str, Any] = dict(dtype="int8", quantization=dict(scales=(0.02,), zero_points=(-3,)))


def _sums_from_behind(file: TfliteFile, x: int, **type_: Any) -> int:
    axis = file.constant(np.array(1, "int32"))
    return file.operator("CUMSUM", [x, axis], IMAGE, "CumsumOptions", Exclusive=True, Reverse=True, **type_)


def _edges_twice(file: TfliteFile, x: int, **type_: Any) -> int:
    widths = file.constant(np.array([[0, 0], [3, 2], [0, 1], [0, 0]], "int32"))
    return file.operator("MIRROR_PAD", [x, widths], (2, 14, 8, 6), "MirrorPadOptions", Mode=1, **type_)


def _edges_once(file: TfliteFile, x: int, **type_: Any) -> int:
    widths = file.constant(np.array([[0, 0], [3, 2], [0, 1], [0, 0]], "int32"))
    return file.operator("MIRROR_PAD", [x, widths], (2, 14, 8, 6), "MirrorPadOptions", Mode=0, **type_)


def _rows_added_up(file: TfliteFile, x: int, **type_: Any) -> int:
    indices = file.constant(np.array([[3], [1]], "int32"))
    shape = file.constant(np.array([4, 9, 7, 6], "int32"))
    return file.operator("SCATTER_ND", [indices, x, shape], (4, 9, 7, 6), "ScatterNdOptions", **type_)


def _diagonals(file: TfliteFile, x: int, **type_: Any) -> int:
    return file.operator("MATRIX_DIAG", [x], (2, 9, 7, 6, 6), "MatrixDiagOptions", **type_)


def _other_diagonals(file: TfliteFile, x: int, **type_: Any) -> int:
    begin, size = (file.constant(np.array(part, "int32")) for part in ([0, 0, 0, 0], [2, 9, 1, 6]))
    row = file.operator("SLICE", [x, begin, size], (2, 9, 1, 6), "SliceOptions", **type_)
    shape = file.constant(np.array([2, 9, 6], "int32"))
    vectors = file.operator("RESHAPE", [row, shape], (2, 9, 6), "ReshapeOptions", **type_)
    return file.operator("MATRIX_SET_DIAG", [x, vectors], IMAGE, "MatrixSetDiagOptions", **type_)


def _nearest_between_corners(file: TfliteFile, x: int, **type_: Any) -> int:
    """Every other pixel lies halfway between two."""
    size = file.constant(np.array([17, 13], "int32"))
    return file.operator(
        "RESIZE_NEAREST_NEIGHBOR",
        [x, size],
        (2, 17, 13, 6),
        "ResizeNearestNeighborOptions",
        AlignCorners=True,
        HalfPixelCenters=False,
        **type_,
    )


def _greatest(file: TfliteFile, x: int, **type_: Any) -> int:
    count = file.constant(np.array(2, "int32"))
    result = file.operator("TOPK_V2", [x, count], (2, 9, 7, 2), "TopKV2Options", **type_)
    file.operators[-1].outputs.append(file.tensor((2, 9, 7, 2), "int32"))
    return result


def _dense(columns: int, keep: bool, *shape: int) -> Callable[..., int]:
    def build(file: TfliteFile, x: int, **type_: Any) -> int:
        weight = file.constant(randoms(5, columns))
        return file.operator(
            "FULLY_CONNECTED", [x, weight], shape, "FullyConnectedOptions", KeepNumDims=keep, **type_
        )

    return build


def _one_matrix_last(file: TfliteFile, x: int, **type_: Any) -> int:
    operands = [x, file.constant(randoms(5, 7))]
    return file.operator(
        "BATCH_MATMUL", operands, (2, 9, 6, 5), "BatchMatMulOptions", AdjX=True, AdjY=True, **type_
    )


def _one_matrix_first(file: TfliteFile, x: int, **type_: Any) -> int:
    operands = [file.constant(randoms(5, 7)), x]
    return file.operator("BATCH_MATMUL", operands, (2, 9, 5, 6), "BatchMatMulOptions", **type_)


def _gathered(file: TfliteFile, x: int, **type_: Any) -> int:
    places = file.constant(np.array([[[1, 3], [0, 8]], [[1, 1], [0, 0]], [[0, 4], [1, 2]]], "int32"))
    return file.operator("GATHER_ND", [x, places], (3, 2, 7, 6), "GatherNdOptions", **type_)


def _transposed_convolution(activation: int) -> Callable[..., int]:
    def build(file: TfliteFile, x: int, **type_: Any) -> int:
        shape, bytes_ = (2, 18, 14, 4), bool(type_)
        real = randoms(4, 3, 3, 6)
        weight = (
            file.constant(np.round(real * 40).astype("int8"), scales=[0.025], zero_points=[0])
            if bytes_
            else file.constant(real)
        )
        return file.operator(
            "TRANSPOSE_CONV",
            [file.constant(np.array(shape, "int32")), weight, x],
            shape,
            "TransposeConvOptions",
            Padding=SAME,
            StrideH=2,
            StrideW=2,
            FusedActivationFunction=activation,
            **type_,
        )

    return build


FLOATS = [
    _dense(6, False, 126, 5),
    _dense(42, False, 18, 5),
    _dense(6, True, 2, 9, 7, 5),
    _one_matrix_first,
    _one_matrix_last,
    _gathered,
    _transposed_convolution(RELU),
    _transposed_convolution(RELU6),
    _sums_from_behind,
    _edges_twice,
    _edges_once,
    _rows_added_up,
    _diagonals,
    _other_diagonals,
    _nearest_between_corners,
]


@pytest.mark.parametrize("build", FLOATS)
def test_operators_agree(build: Callable[..., int], tmp_path: Path) -> None:
    file = TfliteFile()
    file.outputs = [build(file, file.input(IMAGE))]
    data, image = file.finish(), randoms(*IMAGE)
    (wanted,), (output,) = reference(data, [image]), run(data, [image], tmp_path)
    np.testing.assert_allclose(output, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "build",
    [
        _edges_twice,
        _gathered,
        _greatest,
        _nearest_between_corners,
        _other_diagonals,
        _rows_added_up,
    ],
)
def test_operators_on_bytes_are_exact(build: Callable[..., int], tmp_path: Path) -> None:
    file = TfliteFile()
    file.outputs = [build(file, file.input(IMAGE, "int8", **BYTES["quantization"]), **BYTES)]
    data = file.finish()
    image = np.random.default_rng(4).integers(-128, 128, IMAGE).astype("int8")
    (wanted,), (output,) = reference(data, [image]), run(data, [image], tmp_path)
    np.testing.assert_array_equal(output, wanted)


@pytest.mark.parametrize("activation", [RELU, RELU6])
def test_activations_of_transposed_convolutions_on_bytes(activation: int, tmp_path: Path) -> None:
    file = TfliteFile()
    x = file.input(IMAGE, "int8", **BYTES["quantization"])
    _transposed_convolution(activation)(
        file, x, dtype="int8", quantization=dict(scales=(0.1,), zero_points=(-3,))
    )
    data = file.finish()
    image = np.random.default_rng(4).integers(-128, 128, IMAGE).astype("int8")
    (wanted,), (output,) = reference(data, [image]), run(data, [image], tmp_path)
    assert wanted.min() == -3
    np.testing.assert_allclose(output.astype(int), wanted, rtol=0, atol=1)


def test_rows_of_a_table(tmp_path: Path) -> None:
    file = TfliteFile()
    table = file.constant(randoms(9, 4))
    file.operator("EMBEDDING_LOOKUP", [file.input((5,), "int32"), table], (5, 4))
    data, places = file.finish(), np.array([3, 8, 0, 3, 1], "int32")
    (wanted,), (output,) = reference(data, [places]), run(data, [places], tmp_path)
    np.testing.assert_array_equal(output, wanted)


def _of_mediapipe(kernel: int, padding: int, shape: tuple[int, ...]) -> TfliteFile:
    """A transposed convolution with three rows and two columns for each pixel."""
    file = TfliteFile()
    operands = [file.input(IMAGE), file.constant(randoms(4, kernel, kernel, 6)), file.constant(randoms(4))]
    file.operator("Convolution2DTransposeBias", operands, shape, custom=struct.pack("<3i", padding, 2, 3))
    return file


@pytest.mark.parametrize(
    ("padding", "shape"), [(1, (2, 27, 14, 4)), (2, (2, 27, 15, 4))], ids=["same", "valid"]
)
def test_transposed_convolutions_of_mediapipe(padding: int, shape: tuple[int, ...], tmp_path: Path) -> None:
    data, image = _of_mediapipe(3, padding, shape).finish(), randoms(*IMAGE)
    (wanted,) = reference(data, [image], delegates=True)
    (output,) = run(data, [image], tmp_path)
    np.testing.assert_allclose(output, wanted, rtol=1e-4, atol=1e-4)


def test_strides_larger_than_the_kernel_of_mediapipe_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(_of_mediapipe(2, 1, (2, 27, 14, 4)).finish())
    with pytest.raises(ModelError) as raised:
        relay_layout.from_tflite(path)
    assert str(raised.value) == (
        f"model '{path}' cannot be imported: Convolution2DTransposeBias with strides larger than its kernel "
        "is not supported"
    )


def test_custom_operators_are_refused_by_name(tmp_path: Path) -> None:
    file = TfliteFile()
    file.operator("Landmarks2TransformMatrix", [file.input(IMAGE)], IMAGE)
    path = tmp_path / "model.tflite"
    path.write_bytes(file.finish())
    with pytest.raises(ModelError) as raised:
        relay_layout.from_tflite(path)
    assert str(raised.value) == (
        f"model '{path}' cannot be imported: custom operator 'Landmarks2TransformMatrix' is not supported"
    )


def test_bits_as_integers(tmp_path: Path) -> None:
    file = TfliteFile()
    file.operator("BITCAST", [file.input(IMAGE)], IMAGE, "BitcastOptions", "int32")
    image = randoms(*IMAGE)
    (output,) = run(file.finish(), [image], tmp_path)
    np.testing.assert_array_equal(output, image.view("int32"))


def test_bits_of_another_size_are_refused(tmp_path: Path) -> None:
    file = TfliteFile()
    file.operator("BITCAST", [file.input(IMAGE)], (*IMAGE, 2), "BitcastOptions", "int16")
    path = tmp_path / "model.tflite"
    path.write_bytes(file.finish())
    with pytest.raises(ModelError) as raised:
        relay_layout.from_tflite(path)
    assert str(raised.value) == (
        f"model '{path}' cannot be imported: BITCAST of float32 to int16, which has another size"
    )
