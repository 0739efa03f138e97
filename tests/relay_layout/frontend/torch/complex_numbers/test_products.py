"""Products and convolutions of complex numbers, beside PyTorch's."""

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from tests.relay_layout.frontend.torch.complex_numbers.programs import assert_keeps  # noqa: E402
from tests.relay_layout.frontend.torch.harness import Functions  # noqa: E402

GENERATOR = torch.Generator().manual_seed(0)


def numbers(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.complex64, generator=GENERATOR)


WEIGHT, BIAS, KERNEL = numbers(5, 4), numbers(6), numbers(6, 3, 2, 2)

PRODUCTS: Functions = {
    "of matrices": lambda x: x @ x.mT,
    "of adjoints": lambda x: x[0, 0] @ x[0, 0].mH,
    "sum with a product": lambda x: torch.addmm(x[0, 0, 0, :3], x[0, 0], x[0, 0, :3].mT, beta=2, alpha=0.5),
    "ignored sum": lambda x: torch.baddbmm(x[0, ..., :3] / 0, x[0], x[0, :, :3].mT, beta=0),
    "sum of products": lambda x: torch.addbmm(x[0, 0, :, :3], x[0], x[0, :, :3].mT, beta=0.5, alpha=2j),
    "linear": lambda x: F.linear(x, WEIGHT, BIAS[:5]),
    "einsum": lambda x: torch.einsum("bchw,ocij->bow", x, KERNEL),
    "convolution": lambda x: F.conv2d(x, KERNEL, BIAS, stride=2, padding=1),
}


def test_products() -> None:
    assert_keeps(PRODUCTS, numbers(2, 3, 5, 4))


def test_layers_of_complex_weights() -> None:
    assert_keeps({"layer": nn.Linear(4, 3, dtype=torch.complex64).requires_grad_(False)}, numbers(2, 4))
