"""Operators of TensorFlow Lite for which TVM's own converter has nothing that runs, or other numbers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import relay_layout
from relay_layout.errors import ModelError

pytest.importorskip("tflite")

from tests.relay_layout.frontend.tflite.harness import IMAGE, randoms, reference, run
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


FLOATS = [
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
    "build", [_edges_twice, _rows_added_up, _other_diagonals, _nearest_between_corners, _greatest]
)
def test_operators_on_bytes_are_exact(build: Callable[..., int], tmp_path: Path) -> None:
    file = TfliteFile()
    file.outputs = [build(file, file.input(IMAGE, "int8", **BYTES["quantization"]), **BYTES)]
    data = file.finish()
    image = np.random.default_rng(4).integers(-128, 128, IMAGE).astype("int8")
    (wanted,), (output,) = reference(data, [image]), run(data, [image], tmp_path)
    np.testing.assert_array_equal(output, wanted)


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
