"""Files whose tables are read otherwise than the tflite package does it."""

from pathlib import Path

import numpy as np
import pytest

import relay_layout
from relay_layout.errors import ModelError

pytest.importorskip("tflite")

from tests.relay_layout.frontend.tflite.harness import randoms, reference, run
from tests.relay_layout.frontend.tflite.writer import TfliteFile

ROWS = (3, 5)


def dense(file: TfliteFile, weight: int, columns: int) -> TfliteFile:
    operands = [file.input(ROWS), weight, file.constant(randoms(columns))]
    file.operator("FULLY_CONNECTED", operands, (ROWS[0], columns), "FullyConnectedOptions")
    return file


def compare(file: TfliteFile, folder: Path, tolerance: float = 1e-5) -> None:
    data, rows = file.finish(), randoms(*ROWS)
    (wanted,), (output,) = reference(data, [rows]), run(data, [rows], folder)
    np.testing.assert_allclose(output, wanted, rtol=tolerance, atol=tolerance)


def test_constants_behind_the_tables(tmp_path: Path) -> None:
    file = TfliteFile(behind=True)
    compare(dense(file, file.constant(randoms(7, 5)), 7), tmp_path)


def test_constants_beyond_the_end_are_refused(tmp_path: Path) -> None:
    file = TfliteFile(behind=True)
    path = tmp_path / "model.tflite"
    data = dense(file, file.constant(randoms(7, 5)), 7).finish()
    path.write_bytes(data[:-100])
    with pytest.raises(ModelError) as caught:
        relay_layout.from_tflite(path)
    assert str(caught.value).endswith(
        f"cannot be imported: 140 bytes of a tensor at {len(data) - 176} lie beyond the end of the file, "
        f"{len(data) - 100}"
    )


def test_operators_whose_numbers_are_in_the_newer_field(tmp_path: Path) -> None:
    file = TfliteFile(newer=True)
    file.operator("RELU", [file.input(ROWS)], ROWS)
    compare(file, tmp_path)


@pytest.mark.parametrize("scales", [1, 7], ids=["one scale", "a scale of each row"])
def test_weights_of_four_bits(scales: int, tmp_path: Path) -> None:
    """Weights alone: data are real numbers; an odd number of them."""
    file = TfliteFile()
    weight = np.random.default_rng(3).integers(-8, 8, (7, 5))
    stored = file.constant(
        weight, "int4", scales=np.linspace(0.1, 0.3, scales).tolist(), zero_points=[0] * scales
    )
    real = file.operator("DEQUANTIZE", [stored], (7, 5), "DequantizeOptions")
    compare(dense(file, real, 7), tmp_path)


def test_scales_of_blocks_are_refused(tmp_path: Path) -> None:
    file = TfliteFile()
    weight = file.constant(np.ones((7, 5), "int8"), blocks=True)
    (tmp_path / "model.tflite").write_bytes(dense(file, weight, 7).finish())
    with pytest.raises(ModelError) as caught:
        relay_layout.from_tflite(tmp_path / "model.tflite")
    assert str(caught.value).endswith(
        "cannot be imported: tensor 't0' has scales of blocks: quantize by tensor or by channel"
    )
