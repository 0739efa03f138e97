"""Fake quantization beside PyTorch: equal numbers, and products of integers between two of them."""

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import relay_layout  # noqa: E402
from tests.module_operators import products  # noqa: E402
from tests.relay_layout.frontend.torch.harness import Every, Functions, session_of  # noqa: E402

SCALES = torch.tensor([0.1, 0.2, 0.3, 0.15, 0.12, 0.05, 0.4, 0.33])
POINTS = torch.arange(8, dtype=torch.int32)
ONE, THREE = torch.tensor(0.1), torch.tensor(3, dtype=torch.int32)
FUNCTIONS: Functions = {
    "unsigned": lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 128, 0, 255),
    "signed": lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, -3, -128, 127),
    "narrow": lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 1, -7, 7),
    "of 16 bits": lambda x: torch.fake_quantize_per_tensor_affine(x, 0.001, 5, -32768, 32767),
    "by tensors": lambda x: torch.fake_quantize_per_tensor_affine(x, ONE, THREE, 0, 255),
    "by channels": lambda x: torch.fake_quantize_per_channel_affine(x, SCALES, POINTS, 1, 0, 255),
    "by channels, of 16 bits": lambda x: torch.fake_quantize_per_channel_affine(
        x, SCALES / 100, POINTS, 1, -32768, 32767
    ),
}


def test_numbers_are_those_of_pytorch(tmp_path: Path) -> None:
    x = torch.randn(2, 8, 6, 5, generator=torch.Generator().manual_seed(0)) * 9
    model = Every(FUNCTIONS).eval()
    outputs = session_of(model, tmp_path, (x,)).run({"inputs_0": x})
    for name, output, expected in zip(FUNCTIONS, outputs.values(), model(x), strict=True):
        np.testing.assert_allclose(output, expected.numpy(), rtol=1e-6, atol=1e-6, err_msg=name)


class Trained(nn.Module):
    """A convolution of fakely quantized data by such weights, with each channel's own scale."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 8, 3, 3, generator=torch.Generator().manual_seed(1)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        data = torch.fake_quantize_per_tensor_affine(x, 0.05, 128, 0, 255)
        points = torch.zeros(8, dtype=torch.int32)
        weight = torch.fake_quantize_per_channel_affine(self.weight, SCALES / 9, points, 0, -128, 127)
        result = nn.functional.conv2d(data, weight, padding=1)
        return torch.fake_quantize_per_tensor_affine(result, 0.2, 128, 0, 255)


def test_convolutions_between_are_computed_in_integers() -> None:
    model = Trained().eval()
    x = torch.randn(1, 8, 9, 7, generator=torch.Generator().manual_seed(2))
    module = relay_layout.from_torch(model, (x,))
    assert products(module) == [["uint8", "int8"]]
    (output,) = relay_layout.compile(module).session().run({"x": x}).values()
    steps = np.abs(output - model(x).detach().numpy()) / 0.2
    assert steps.max() < 1.01 and (steps > 0.5).mean() < 0.01
