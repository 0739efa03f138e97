"""Whole quantized networks beside ONNX Runtime, made by its quantization."""

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from qdq_graphs import run_both, steps_apart

import relay_layout
from relay_layout import models
from relay_layout.environment import host
from scripts.quantize import main, quantize
from tests.quantized_steps import Arrays, steps_apart_each


def agreement(
    folder: Path,
    name: str,
    image_size: int,
    width: float,
    activations: str,
    per_channel: bool,
    form: str = "qdq",
) -> tuple[float, float]:
    """The largest difference of the outputs in steps, and the share of them that differs."""
    network = models.build(name, image_size=image_size, width=width, classes=100)
    path = quantize(
        network, folder / "int8.onnx", activations=activations, per_channel=per_channel, form=form
    )
    model = onnx.load(path)
    (ours,), (reference,), _ = run_both(model, folder)
    step = float(np.diff(np.unique(reference)).min())
    assert len(np.unique(reference)) > 20
    return steps_apart(ours, reference, step)


@pytest.mark.parametrize(
    ("activations", "per_channel"), [("uint8", True), pytest.param("int8", False, marks=pytest.mark.slow)]
)
def test_a_small_resnet(tmp_path: Path, activations: str, per_channel: bool) -> None:
    """Within one step, on all but a tenth of the outputs none at all."""
    largest, share = agreement(tmp_path, "resnet18", 32, 0.25, activations, per_channel)
    assert largest <= 1.01 and share <= 0.1, (largest, share)


@pytest.mark.parametrize(
    "name",
    ["mobilenet_v2", *(pytest.param(name, marks=pytest.mark.slow) for name in ("densenet121", "vgg16"))],
)
def test_operators_on_integers(tmp_path: Path, name: str) -> None:
    """Those of ONNX Runtime's own domain among them: sums, averages, products of matrices."""
    largest, share = agreement(tmp_path, name, 32, 0.25, "uint8", True, "qoperator")
    assert largest <= 1.01 and share <= 0.1, (largest, share)


@pytest.mark.parametrize("name", ["resnet18", pytest.param("mobilenet_v2", marks=pytest.mark.slow)])
def test_integers_whose_scales_the_data_give(tmp_path: Path, name: str) -> None:
    """Sums round otherwise in their last bit, by which an integer may be another one later on."""
    network = models.build(name, image_size=32, width=0.25, classes=100)
    path = quantize(network, tmp_path / "int8.onnx", form="dynamic")
    (ours,), (reference,), _ = run_both(onnx.load(path), tmp_path)
    assert np.abs(ours - reference).max() < 0.02 * np.abs(reference).max()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "resnet50", "squeezenet1_1"])
def test_networks_in_full(tmp_path: Path, name: str) -> None:
    """Equal to the bit, where ONNX Runtime has the instructions that do not saturate."""
    if not {"avx512vnni", "avxvnni"} & (host.cpu_features() or frozenset()):
        pytest.skip("no VNNI: ONNX Runtime's own sums of products saturate here")
    assert agreement(tmp_path, name, 224, 1.0, "uint8", True) == (0, 0)


@pytest.mark.parametrize("layout", ["NHWC", pytest.param("NCHW16c", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name == "convnext_tiny" else [pytest.mark.slow])
        for name in models.names()
    ],
)
def test_each_step(tmp_path: Path, name: str, layout: str) -> None:
    """Given ONNX Runtime's integers before it, a step's are equal, or one apart where a number is a half."""
    size = {"inception_v3": 107, "unet": 32}.get(name, 64)
    network = models.build(name, image_size=size, width=0.25)
    path = quantize(network, tmp_path / "int8.onnx")
    image = np.random.default_rng(7).standard_normal((1, 3, size, size), dtype="float32")

    def run(model: onnx.ModelProto, inputs: Arrays) -> Arrays:
        relay_layout.compile(model, threads=2, desired_layout=layout).save(tmp_path / "apart.rla")
        return relay_layout.load(tmp_path / "apart.rla", threads=2).run(inputs)

    largest, share = steps_apart_each(onnx.load(path), image, run)
    assert largest <= 1 and share < 2e-5, (largest, share)


def test_a_folder_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "nowhere" / "int8.onnx"
    monkeypatch.setattr("sys.argv", ["quantize", "resnet18", "-o", str(output)])
    assert main() == 2
    assert capsys.readouterr().err == (
        f"relay-layout: error: -o: the folder {os.path.realpath(output.parent)} does not exist\n"
    )
