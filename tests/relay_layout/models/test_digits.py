"""The trained network that accuracy tests lean on, as it is committed."""

from pathlib import Path

import numpy as np
import pytest

DIGITS = Path(__file__).resolve().parents[2] / "data" / "digits"


def test_committed_network_classifies_the_held_out_digits() -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    with np.load(DIGITS / "test_split.npz") as split:
        images, labels = split["images"], split["labels"]
    assert (images.dtype, images.shape) == (np.float32, (360, 1, 8, 8))
    assert (images.min(), images.max()) == (0.0, 1.0)
    assert np.bincount(labels).min() >= 30
    session = onnxruntime.InferenceSession(DIGITS / "digits.onnx", providers=["CPUExecutionProvider"])
    (logits,) = session.run(["output"], {"input": images})
    assert (logits.argmax(axis=1) == labels).mean() > 0.98


def test_committed_network_has_a_symbolic_batch_and_batch_normalization() -> None:
    onnx = pytest.importorskip("onnx")
    assert (DIGITS / "digits.onnx").stat().st_size < 1_000_000
    graph = onnx.load(DIGITS / "digits.onnx").graph
    assert graph.input[0].type.tensor_type.shape.dim[0].dim_param == "N"
    assert sum(node.op_type == "BatchNormalization" for node in graph.node) == 8
