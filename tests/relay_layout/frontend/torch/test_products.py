"""PyTorch's convolutions and matrix products in other types than float32, beside PyTorch's numbers."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from relay_layout import from_torch  # noqa: E402
from relay_layout.errors import ModelError  # noqa: E402
from tests.relay_layout.frontend.torch.harness import Every, Functions, assert_agrees, session_of  # noqa: E402

torch.manual_seed(0)

ADDEND, MATRICES = torch.randn(2, 6, 3), torch.randn(2, 9, 3)


def operations(dtype: torch.dtype) -> Functions:
    def made(module: nn.Module) -> nn.Module:
        return module.eval().to(dtype)

    rows, rows_up = made(nn.Conv1d(6, 4, 3)), made(nn.ConvTranspose1d(6, 4, 3, 2))
    volumes, dense = made(nn.Conv3d(1, 2, 2)), made(nn.Linear(6, 10))
    addend, matrices = ADDEND.to(dtype), MATRICES.to(dtype)
    return {
        "rows": lambda x: rows(x[..., 0]),
        "images": made(nn.Conv2d(6, 8, 3, padding=1)),
        "groups without bias": made(nn.Conv2d(6, 9, 3, 2, groups=3, bias=False)),
        "volumes": lambda x: volumes(x[:, None]).contiguous(),
        "transposed rows": lambda x: rows_up(x[..., 0]),
        "transposed": made(nn.ConvTranspose2d(6, 5, 3, 2, 1, 1)),
        "batch norm": made(nn.Sequential(nn.Conv2d(6, 8, 1), nn.BatchNorm2d(8), nn.SiLU())),
        "dense": lambda x: dense(x.mean((2, 3))),
        "products": lambda x: torch.bmm(x[..., 0], matrices),
        "sums with products": lambda x: torch.baddbmm(addend, x[..., 0], matrices, beta=0.5, alpha=2),
        "a sum with a product": lambda x: torch.addmm(addend[0], x[0, ..., 0], matrices[0], alpha=3),
        "attention": lambda x: F.scaled_dot_product_attention(x[..., 0], x[..., 1], x[..., 2]),
    }


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64], ids=str)
def test_types(dtype: torch.dtype, tmp_path: Path) -> None:
    model = Every(operations(dtype)).eval()
    x = torch.randn(2, 6, 9, 7).to(dtype)
    assert_agrees(session_of(model, tmp_path, (x,)), model, (x,))


def test_products_of_integers(tmp_path: Path) -> None:
    model = Every({"integers": lambda x: x @ x.T}).eval()
    x = torch.arange(12).reshape(3, 4)
    assert_agrees(session_of(model, tmp_path, (x,)), model, (x,))


def _transposed(x: torch.Tensor) -> torch.Tensor:
    return F.conv_transpose2d(
        x.flatten(0, 1)[None], x[:, :, :3, :3].flatten(0, 1)[:, None], groups=6 * x.shape[0]
    )


def _by_all(x: torch.Tensor) -> torch.Tensor:
    return F.conv2d(x.flatten(0, 1)[None], x.flatten(0, 1)[:, None], padding=1, groups=6 * x.shape[0])


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8], ids=str)
def test_products_of_bytes(dtype: torch.dtype, tmp_path: Path) -> None:
    """As torchao writes layers whose data are quantized at run time."""
    limits = torch.iinfo(dtype)
    weight = torch.randint(-128, 128, (9, 20), dtype=torch.int8)
    other = torch.randint(-128, 128, (9, 20), dtype=torch.int8)

    class Model(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return torch._int_mm(x, weight.t()), torch._int_mm(x, y.t())

    x = torch.randint(limits.min, limits.max + 1, (18, 20)).to(dtype)
    model = Model().eval()
    assert_agrees(session_of(model, tmp_path, (x, other)), model, (x, other))


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (_transposed, "a transposed convolution in an open number of groups is not supported"),
        (
            _by_all,
            "a convolution in an open number of groups, of open channels or by an open kernel, is not "
            "supported",
        ),
    ],
    ids=["transposed", "kernel"],
)
def test_filters_of_each_image_that_need_a_fixed_batch(function: Any, what: str) -> None:
    model, images = Every({"filtered": function}).eval(), torch.randn(2, 6, 9, 7)
    dynamic = (({axis: torch.export.Dim.AUTO for axis in (0, 2)},),)
    with pytest.raises(ModelError) as raised:
        from_torch(model, (images,), dynamic_shapes=dynamic)
    assert str(raised.value) == f"node 'convolution': {what}; give the input a fixed batch"
