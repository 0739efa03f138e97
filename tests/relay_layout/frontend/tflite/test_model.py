"""TensorFlow Lite models beside LiteRT's interpreter."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

tflite = pytest.importorskip("tflite")

import relay_layout  # noqa: E402
from relay_layout.errors import ModelError  # noqa: E402
from tests.relay_layout.frontend.tflite.harness import IMAGE, RELU6, randoms, reference, run  # noqa: E402
from tests.relay_layout.frontend.tflite.operators import OPERATORS, convolution, depthwise, reduction  # noqa: E402
from tests.relay_layout.frontend.tflite.writer import TfliteFile  # noqa: E402


def file_of(names: Sequence[str]) -> bytes:
    """A file with all of these operators on one image, an output each."""
    file = TfliteFile()
    image = file.input(IMAGE)
    file.outputs = [OPERATORS[name](file, image) for name in names]
    return file.finish()


def assert_agrees(names: Sequence[str], folder: Path, **options: Any) -> None:
    data, image = file_of(names), randoms(*IMAGE)
    expected = reference(data, [image])
    outputs = run(data, [image], folder, **options)
    for name, output, wanted in zip(names, outputs, expected, strict=True):
        assert output.shape == wanted.shape, name
        np.testing.assert_allclose(output, wanted, rtol=1e-4, atol=1e-4, err_msg=name)


@pytest.mark.parametrize("part", range(4))
def test_operators_agree(part: int, tmp_path: Path) -> None:
    assert_agrees(list(OPERATORS)[part::4], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["none", "auto", "NCHW", "NCHW16c"])
@pytest.mark.parametrize("name", OPERATORS)
def test_each_operator_agrees(name: str, layout: str, tmp_path: Path) -> None:
    assert_agrees([name], tmp_path, desired_layout=layout)


def network() -> bytes:
    """A few layers as of a mobile network."""
    file = TfliteFile()
    x = convolution(file, file.input((1, 33, 31, 3)), stride=2, activation=RELU6, outputs=16)
    for _ in range(2):
        y = convolution(file, x, kernel=(1, 1), outputs=48, activation=RELU6)
        y = convolution(file, depthwise(file, y, activation=RELU6), kernel=(1, 1), outputs=16)
        x = file.operator("ADD", [x, y], file.tensors[x].shape, "AddOptions")
    file.outputs = [reduction(file, x, "MEAN", [1, 2], False)]
    return file.finish()


@pytest.mark.parametrize("layout", ["auto", "NCHW16c"])
def test_a_network_converts(layout: str, tmp_path: Path) -> None:
    data, image = network(), randoms(1, 33, 31, 3)
    (expected,) = reference(data, [image])
    (output,) = run(data, [image], tmp_path, desired_layout=layout)
    np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


def refusal(path: Path, **options: Any) -> str:
    with pytest.raises(ModelError) as caught:
        relay_layout.from_tflite(path, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_files_that_are_no_models(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    assert refusal(path) == f"model '{path}': no such file"
    path.write_bytes(b"")
    assert refusal(path) == f"model '{path}' is empty"
    path.write_bytes(b"PK\3\4" + bytes(60))
    assert refusal(path) == f"model '{path}' is not a TensorFlow Lite file: it lacks the identifier TFL3"


def test_operators_that_are_not_supported_are_named(tmp_path: Path) -> None:
    file = TfliteFile()
    x = file.input((2, 3))

    file.operator("LSH_PROJECTION", [x], (2, 3))
    path = tmp_path / "model.tflite"
    path.write_bytes(file.finish())
    assert "not supported in frontend TFLite: 'LSH_PROJECTION'" in refusal(path)


def test_shapes_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(file_of(["relu"]))
    relay_layout.from_tflite(path, input_shapes={"t0": IMAGE})
    assert refusal(path, input_shapes={"t0": (1, 9, 7, 6)}) == (
        f"model '{path}': input 't0': dimension 0 is 2 in the file, not 1 as in the given shape 1,9,7,6"
    )


def test_damaged_files_are_refused_or_read(tmp_path: Path) -> None:
    whole = file_of(["convolution", "dense"])
    generator = np.random.default_rng(0)
    path = tmp_path / "model.tflite"
    for trial in range(150):
        data = bytearray(whole)
        if trial % 3 == 0:
            del data[int(generator.integers(8, len(data))) :]
        else:
            for _ in range(3):
                data[int(generator.integers(8, len(data)))] = int(generator.integers(256))
        path.write_bytes(data)
        try:
            relay_layout.from_tflite(path)
        except ModelError as error:
            assert str(error).startswith(f"model '{path}'") and "\n" not in str(error)
