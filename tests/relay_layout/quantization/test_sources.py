"""Quantized networks from PyTorch and from Relay, and of computed scales."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

import relay_layout
from relay_layout.ir import operator_name
from relay_layout.quantization import to_integers
from tests.module_operators import products
from tests.relax_modules import main_of


def run(module: Any, folder: Path, **inputs: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
    compiled = relay_layout.compile(module)
    compiled.save(folder / "model.rla")
    return next(iter(relay_layout.load(folder / "model.rla").run(inputs).values())), compiled.report


class TestTorch:
    """Operators of PT2E quantization."""

    torch = pytest.importorskip("torch")

    def program(self, low: int = -128, scale: float = 0.05) -> tuple[Any, Any]:
        """A convolution of int8 between a range of integers and the whole one, and its input."""
        import torch.ao.quantization.fx._decomposed

        torch = self.torch
        operators = torch.ops.quantized_decomposed
        generator = torch.Generator().manual_seed(0)

        class Network(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                weight = torch.randint(-127, 128, (32, 16, 3, 3), dtype=torch.int8, generator=generator)
                self.register_buffer("weight", weight)
                self.register_buffer("scales", torch.rand(32, generator=generator) * 0.01 + 0.001)
                self.register_buffer("zeros", torch.zeros(32, dtype=torch.int64))
                self.register_buffer("bias", torch.randn(32, generator=generator))

            def forward(self, image: Any) -> Any:
                first = (0.03, -5, low, 127, torch.int8)
                last = (scale, -120, -128, 127, torch.int8)
                image = operators.quantize_per_tensor(image, *first)
                image = operators.dequantize_per_tensor(image, *first)
                weight = operators.dequantize_per_channel(
                    self.weight, self.scales, self.zeros, 0, -127, 127, torch.int8
                )
                result = torch.nn.functional.conv2d(image, weight, self.bias, padding=1).relu()
                result = operators.quantize_per_tensor(result, *last)
                return operators.dequantize_per_tensor(result, *last)

        return Network().eval(), torch.randn(2, 16, 9, 7, generator=generator)

    @pytest.mark.parametrize("low", [-128, -20])
    def test_convolution(self, tmp_path: Path, low: int) -> None:
        network, image = self.program(low)
        module = relay_layout.from_torch(network, (image,))
        assert products(module) == [["uint8", "int8"]]
        name = str(module["main"].params[0].name)
        ours, _ = run(module, tmp_path, **{name: image.numpy()})
        steps = np.abs(ours - network(image).numpy()) / 0.05
        assert steps.max() < 1.5 and (steps > 0.5).mean() < 0.001


QNN = """def @main(%x: Tensor[(1, 16, 8, 8), uint8], %w: Tensor[(32, 16, 3, 3), int8]) {{
  %0 = qnn.conv2d(%x, %w, {zero}, 0, 0.02f, 0.01f, channels=32, kernel_size=[3, 3], padding=[1, 1, 1, 1],
    out_dtype="int32");
  qnn.requantize(%0, 0.0002f, 0, 0.05f, 7, out_dtype="uint8")
}}"""


@pytest.mark.parametrize("zero", [0, 131])
def test_relay_becomes_bytes(tmp_path: Path, zero: int) -> None:
    """With the integers of the wide convolution, to the last bit."""
    random = np.random.default_rng(0)
    image = random.integers(0, 256, (1, 16, 8, 8)).astype("uint8")
    weight = random.integers(-128, 128, (32, 16, 3, 3)).astype("int8")
    (tmp_path / "model.relay").write_text('#[version = "0.0.5"]\n' + QNN.format(zero=zero))
    module = relay_layout.frontend.load_model(tmp_path / "model.relay", params={"w": weight})
    assert products(module) == [["uint8", "int8"]]
    ours, _ = run(module, tmp_path, x=image)
    wide = np.pad(image.astype("int64") - zero, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (2, 3))
    sums = np.einsum("nchwij,ocij->nohw", windows, weight.astype("int64"))
    expected = np.clip(np.floor(sums * (np.float32(0.0002) / np.float32(0.05)) + 0.5) + 7, 0, 255)
    assert np.abs(ours.astype("int64") - expected).max() <= 1
    assert (ours != expected).mean() < 0.01


def test_scales_that_are_computed(tmp_path: Path) -> None:
    """Quantized along an axis by a parameter: arithmetic, with halves to even."""
    data = relax.Var("data", relax.TensorType((2, 3, 4), "float32"))
    scale = relax.Var("scale", relax.TensorType((3,), "float32"))
    zeros = relax.const(np.array([0, 5, 200], "uint8"))
    names = {"input_names": ["data", "scale"], "output_names": ["y"]}
    with main_of(data, scale, attrs=names) as builder:
        integers = builder.emit(relax.op.quantize(data, scale, zeros, 1, "uint8"))
        builder.result = relax.op.dequantize(integers, scale, zeros, 1, "float32")
    module = builder.finalize()
    assert not {"quantize", "dequantize"} & {operator_name(call) for call in calls(to_integers(module))}
    values = np.linspace(-3, 3, 24, dtype="float32").reshape(2, 3, 4)
    scales = np.array([0.5, 0.25, 0.1], "float32")
    ours, _ = run(module, tmp_path, data=values, scale=scales)
    steps, shift = scales[:, None], np.array([0, 5, 200])[:, None]
    expected = (np.clip(np.rint(values / steps) + shift, 0, 255) - shift) * steps
    np.testing.assert_allclose(ours, expected, rtol=1e-6)


def calls(module: tvm.IRModule) -> list[Any]:
    found: list[Any] = []
    relax.analysis.post_order_visit(module["main"], found.append)
    return found
