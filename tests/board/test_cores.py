"""A small network compiled for every core that has a name runs on a board that emulates all of them."""

from pathlib import Path

import numpy as np
import pytest

import relay_layout
from relay_layout.models import build
from relay_layout.runtime.remote import open_session
from relay_layout.targets.arm import ARM_BOARDS
from tests.board.networks import TOLERANCE, by_onnx_runtime, exported, largest_error
from tests.board.servers import Boards

pytest.importorskip("onnxruntime")

FLOAT16_TOLERANCE = 1e-2
CASES = [
    *((f"aarch64-{core}", "float32", TOLERANCE) for core in ARM_BOARDS),
    ("aarch64-cortex-a53+fullfp16", "float16", FLOAT16_TOLERANCE),
    ("aarch64-apple-a14", "float16", FLOAT16_TOLERANCE),
    ("aarch64-cortex-a72+dotprod", "int8", 0.0),
    ("aarch64-cortex-a76+i8mm", "int8", 0.0),
    ("aarch64-neoverse-n2", "int8", 0.0),
    ('{"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a73"}', "float32", TOLERANCE),
]


@pytest.mark.slow
@pytest.mark.parametrize(("target", "precision", "tolerance"), CASES)
def test_cores(newest: Boards, tmp_path: Path, target: str, precision: str, tolerance: float) -> None:
    network = build("mobilenet_v2", image_size=32, width=0.25)
    image = np.random.default_rng(7).standard_normal((1, 3, 32, 32), dtype="float32")
    model = exported(network, precision, tmp_path)
    reference = model if precision == "int8" else exported(network, "float32", tmp_path)
    path = tmp_path / "network.rla"
    relay_layout.compile(model, target=target, threads=1).save(path)
    inputs = {"input": image.astype("float16" if precision == "float16" else "float32")}
    outputs = open_session(path, newest.remote, seconds=120).run(inputs)
    assert largest_error(outputs, by_onnx_runtime(reference, image)) <= tolerance
