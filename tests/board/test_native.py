"""The package on the emulated board itself compiles for what it finds there, and runs it."""

from pathlib import Path

import numpy as np
import pytest

from relay_layout.artifact import read_artifact
from tests.board.native import compiled_there, native_error
from tests.board.networks import TOLERANCE
from tests.board.root import BoardRoot

pytestmark = pytest.mark.slow

CONVOLUTION = """#[version = "0.0.5"]
def @main(%data: Tensor[(1, 8, 12, 10), float32], %weight: Tensor[(16, 8, 1, 1), float32]) {
  nn.relu(nn.conv2d(%data, %weight, padding=[0, 0, 0, 0], channels=16, kernel_size=[1, 1]))
}
"""


def test_a_convolution(root: BoardRoot, tmp_path: Path) -> None:
    model = tmp_path / "model.relay"
    model.write_text(CONVOLUTION, encoding="utf-8")
    rng = np.random.default_rng(0)
    data, weight = (rng.standard_normal(shape, dtype="float32") for shape in ((1, 8, 12, 10), (16, 8, 1, 1)))
    outputs = compiled_there(root, tmp_path, [str(model)], {"data": data, "weight": weight})
    (found,) = outputs.values()
    expected = np.maximum(np.einsum("nchw,oc->nohw", data, weight[:, :, 0, 0]), 0)
    assert np.abs(found - expected).max() < TOLERANCE * expected.max()
    (build,) = read_artifact(tmp_path / "network.rla").manifest.builds
    assert str(build.target["mtriple"]).startswith("aarch64")
    assert {"dotprod", "fullfp16"} <= set(build.target["features"])


def test_a_network(root: BoardRoot, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    assert native_error(root, tmp_path) < TOLERANCE
