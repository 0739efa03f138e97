"""Quantized PyTorch programs beside PyTorch: the same integers, or one step apart where rounding differs."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import relay_layout  # noqa: E402
from relay_layout import models  # noqa: E402
from relay_layout.artifact import Quantization  # noqa: E402
from relay_layout.bench.onnx_to_torch.module import convert  # noqa: E402
from relay_layout.errors import ModelError  # noqa: E402
from tests.module_operators import products  # noqa: E402
from tests.relay_layout.frontend.torch.harness import session_of  # noqa: E402
from tests.relay_layout.frontend.torch.pt2e import OPERATORS, QUANTIZERS, apart  # noqa: E402


class Network(nn.Module):
    """Plain, depthwise, grouped and strided convolutions, a sum, poolings and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Conv2d(3, 24, 3, padding=1)
        self.norm = nn.BatchNorm2d(24)
        self.wide = nn.Conv2d(24, 24, 3, stride=2, padding=1, groups=24)
        self.grouped = nn.Conv2d(24, 24, 3, padding=1, groups=3, bias=False)
        self.narrow = nn.Conv2d(24, 20, 1)
        self.last = nn.Linear(20, 11)
        self.dropout = nn.Dropout()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.norm(self.first(x)))
        x = F.hardtanh(self.wide(x), 0.0, 6.0)
        x = F.relu(x + self.grouped(x))
        x = F.max_pool2d(F.relu(self.narrow(x)), 2)
        return self.last(self.dropout(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1)))


def image(*shape: int, seed: int = 0, memory_format: Any = torch.contiguous_format) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).contiguous(
        memory_format=memory_format
    )


def steps_apart(
    module: Any, inputs: tuple[torch.Tensor, ...], folder: Path, **options: Any
) -> tuple[int, float]:
    """How far integers are from PyTorch's, each step given PyTorch's own, and the share that differs."""
    alone, expected = apart(module, inputs)
    session = session_of(alone, folder, (*inputs, *expected), **options)
    names = [spec.name for spec in session.inputs]
    found = session.run(dict(zip(names, (*inputs, *expected), strict=True)))
    distances = [
        np.abs(ours.astype("int64") - theirs.numpy()).ravel()
        for ours, theirs in zip(found.values(), expected, strict=True)
    ]
    assert all(len(values.unique()) > 8 for values in expected)
    every = np.concatenate(distances)
    return int(every.max()), float((every > 0).mean())


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(
    ("quantizer", "per_channel"), [("by hand", True), ("by hand", False), ("x86", True), ("xnnpack", True)]
)
def test_a_small_network(
    quantizer: str, per_channel: bool, memory_format: torch.memory_format, tmp_path: Path
) -> None:
    x = image(2, 3, 15, 14, memory_format=memory_format)
    module = QUANTIZERS[quantizer](Network().eval(), (x,), per_channel=per_channel)
    assert products(relay_layout.from_torch(module, (x,))) == [["uint8", "int8"]] * 5
    session = session_of(module, tmp_path, (x,))
    last = memory_format is torch.channels_last
    assert session.inputs[0].dim_order == ((0, 2, 3, 1) if last else (0, 1, 2, 3))
    # One step of the result; the x86 quantizer leaves it real.
    step = 0.01
    for seed in range(3):
        x = image(2, 3, 15, 14, seed=seed, memory_format=memory_format)
        (ours,) = session.run({"x": x}).values()
        with torch.no_grad():
            np.testing.assert_allclose(ours, module(x).numpy(), rtol=0, atol=1.01 * step)
    largest, share = steps_apart(module, (x,), tmp_path)
    assert largest <= 1 and share < 0.002, (largest, share)


@pytest.mark.parametrize("layout", ["none", "NHWC", "NCHW8c"])
def test_the_axis_of_quantization_follows_the_layout(layout: str, tmp_path: Path) -> None:
    x = image(1, 3, 12, 12)
    module = QUANTIZERS["by hand"](Network().eval(), (x,))
    largest, share = steps_apart(module, (x,), tmp_path, desired_layout=layout)
    assert largest <= 1 and share < 0.002, (largest, share)


def test_weights_that_the_program_quantizes_itself(tmp_path: Path) -> None:
    """The integers are PyTorch's, which multiplies by the inverse of a scale."""
    x = image(1, 3, 12, 12)
    weight = image(8, 3, 3, 3, seed=1)

    class Unfolded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(weight)
            self.register_buffer("scales", weight.flatten(1).abs().amax(1) / 127.5)
            self.register_buffer("zeros", torch.zeros(8, dtype=torch.int64))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            steps = (0.03, 10, -128, 127, torch.int8)
            x = OPERATORS.dequantize_per_tensor(OPERATORS.quantize_per_tensor(x, *steps), *steps)
            channels = (self.scales, self.zeros, 0, -128, 127, torch.int8)
            integers = OPERATORS.quantize_per_channel(self.weight, *channels)
            return F.conv2d(x, OPERATORS.dequantize_per_channel(integers, *channels))

    model = Unfolded().eval()
    assert products(relay_layout.from_torch(model, (x,))) == [["uint8", "int8"]]
    (ours,) = session_of(model, tmp_path, (x,)).run({"x": x}).values()
    np.testing.assert_allclose(ours, model(x).detach().numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("symmetric", [False, True])
def test_scales_that_are_computed(symmetric: bool, tmp_path: Path) -> None:
    """Dynamic quantization: scale and zero point come from the tensor."""
    choose = OPERATORS.choose_qparams_symmetric if symmetric else OPERATORS.choose_qparams

    class Dynamic(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            results = []
            for low, high, dtype in ((-128, 127, torch.int8), (0, 127, torch.uint8)):
                scale, zero = choose(x, low, high, 1e-5, dtype)
                integers = OPERATORS.quantize_per_tensor(x, scale, zero, low, high, dtype)
                results += [
                    integers,
                    OPERATORS.dequantize_per_tensor(integers, scale, zero, low, high, dtype),
                ]
            return tuple(results)

    for x in (image(3, 40), image(3, 40).abs() + 1, torch.zeros(3, 40)):
        outputs = list(session_of(Dynamic().eval(), tmp_path, (x,)).run({"x": x}).values())
        for ours, theirs in zip(outputs, Dynamic()(x), strict=True):
            step = 1 if not theirs.is_floating_point() else float(x.abs().max()) / 60
            np.testing.assert_allclose(ours.astype("float64"), theirs, rtol=0, atol=1.01 * step)
            assert (np.abs(ours - theirs.numpy()) > 0.1 * step).mean() <= 0.02


def test_other_dtypes_of_real_numbers(tmp_path: Path) -> None:
    class Half(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            steps = (0.05, 3, 0, 255, torch.uint8)
            integers = OPERATORS.quantize_per_tensor(x, *steps)
            return OPERATORS.dequantize_per_tensor(integers, *steps, out_dtype=torch.float16)

    x = image(2, 30).half()
    (ours,) = session_of(Half().eval(), tmp_path, (x,)).run({"x": x}).values()
    assert ours.dtype == np.float16
    np.testing.assert_array_equal(ours, Half()(x).numpy())


def test_integers_at_the_border(tmp_path: Path) -> None:
    """The manifest tells what they stand for."""

    class Bytes(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            real = OPERATORS.dequantize_per_tensor(x, 0.5, 3, 0, 255, torch.uint8)
            return OPERATORS.quantize_per_tensor(real.relu(), 0.25, -7, -128, 127, torch.int8)

    x = torch.arange(40, dtype=torch.uint8).reshape(1, 40)
    session = session_of(Bytes().eval(), tmp_path, (x,))
    assert session.inputs[0].quantization == Quantization((0.5,), (3,))
    assert session.outputs[0].quantization == Quantization((0.25,), (-7,))
    np.testing.assert_array_equal(session.run({"x": x})["output"], Bytes()(x).numpy())


def test_a_file_in_a_process_of_its_own(tmp_path: Path) -> None:
    """torch reads the operators of quantization only once something has made them known."""
    x = image(2, 3, 9, 8)
    module = QUANTIZERS["by hand"](Network().eval(), (x,))
    torch.export.save(torch.export.export(module, (x,)), tmp_path / "model.pt2")
    command = [sys.executable, "-m", "relay_layout", "compile", str(tmp_path / "model.pt2")]
    done = subprocess.run([*command, "-o", str(tmp_path / "model.rla")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (ours,) = relay_layout.load(tmp_path / "model.rla").run({"x": x}).values()
    np.testing.assert_allclose(ours, module(x).detach().numpy(), rtol=0, atol=0.0101)


def test_dtypes_that_are_not_supported() -> None:
    class Wide(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return OPERATORS.quantize_per_tensor(x, 0.5, 0, -(2**31), 2**31 - 1, torch.int32)

    with pytest.raises(ModelError) as raised:
        relay_layout.from_torch(Wide().eval(), (torch.zeros(2),))
    assert str(raised.value) == (
        "node 'quantize_per_tensor': int32 is not supported; int8, uint8, int16, uint16 are"
    )


def network(name: str, folder: Path, image_size: int, width: float) -> nn.Module:
    pytest.importorskip("onnx")
    models.export_onnx(
        models.build(name, image_size=image_size, width=width, classes=100), folder / "network.onnx"
    )
    return convert(folder / "network.onnx")


def network_agrees(name: str, quantizer: str, folder: Path, image_size: int, width: float) -> None:
    """Every step on its own within one of PyTorch's; the whole, in which these add up, within five."""
    x = image(1, 3, image_size, image_size)
    module = QUANTIZERS[quantizer](network(name, folder, image_size, width), (x,), per_channel=True)
    found = products(relay_layout.from_torch(module, (x,)))
    assert len(found) > 20 and all(dtypes == ["uint8", "int8"] for dtypes in found)
    largest, share = steps_apart(module, (x,), folder)
    assert largest <= 1 and share < 1e-3, (largest, share)
    session = session_of(module, folder, (x,))
    for seed in range(3):
        x = image(1, 3, image_size, image_size, seed=seed)
        (ours,) = session.run({session.inputs[0].name: x}).values()
        with torch.no_grad():
            (theirs,) = (result.numpy() for result in module(x))
        step = float(np.diff(np.unique(theirs)).min())
        assert np.abs(ours - theirs).max() <= 5.01 * step
        assert np.corrcoef(ours.ravel(), theirs.ravel())[0, 1] > 0.999


def test_a_small_mobilenet(tmp_path: Path) -> None:
    network_agrees("mobilenet_v2", "by hand", tmp_path, 32, 0.25)


@pytest.mark.slow
@pytest.mark.parametrize("quantizer", ["by hand", "xnnpack"])
@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2"])
def test_networks_in_full(name: str, quantizer: str, tmp_path: Path) -> None:
    network_agrees(name, quantizer, tmp_path, 224, 1.0)
