"""Built-in networks, compiled here, give the numbers of ONNX Runtime on the model emitted beside."""

from pathlib import Path

import numpy as np
import pytest

import relay_layout
from relay_layout.models import Network, build, to_onnx, to_relax

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

NETWORKS = (
    "convnext_tiny",
    "densenet121",
    "efficientnet_b0",
    "inception_v3",
    "mobilenet_v3_large",
    "unet",
    "yolo",
)
LAYOUTS = ("NCHW", "NHWC", "NCHW8c", "NCHW16c")
TOLERANCE = 1e-4
"""Largest difference allowed, as a share of an output's largest number."""


def _small(name: str) -> Network:
    image_size = (107, 75) if name == "inception_v3" else (96, 64)
    return build(name, image_size=image_size, width=0.25, classes=10)


def _assert_agrees(network: Network, layout: str, folder: Path) -> None:
    images = np.random.default_rng(7).standard_normal(network.inputs[0].shape, dtype=np.float32)
    model = to_onnx(network).SerializeToString()
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    names = [value.name for value in network.outputs]
    expected = dict(zip(names, session.run(names, {"input": images}), strict=True))
    artifact = folder / "network.rla"
    relay_layout.compile(to_relax(network), desired_layout=layout).save(artifact)
    outputs = relay_layout.load(artifact).run({"input": images})
    assert list(outputs) == names
    for name, reference in expected.items():
        assert outputs[name].shape == reference.shape
        assert np.abs(outputs[name] - reference).max() < TOLERANCE * np.abs(reference).max(), name


# Some seventy kernels of different shapes take their time to build.
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if name == "densenet121" else []) for name in NETWORKS],
)
def test_small_copies_agree_with_onnx_runtime(name: str, tmp_path: Path) -> None:
    _assert_agrees(_small(name), "auto", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", NETWORKS)
def test_small_copies_agree_in_every_layout(name: str, layout: str, tmp_path: Path) -> None:
    _assert_agrees(_small(name), layout, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_full_size_agrees_with_onnx_runtime(name: str, tmp_path: Path) -> None:
    _assert_agrees(build(name), "auto", tmp_path)
