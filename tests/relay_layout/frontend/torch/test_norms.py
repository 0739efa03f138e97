"""Norms with and without parameters, in all types, and the statistics that they give out."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from tests.relay_layout.frontend.torch.harness import Every, Functions, assert_agrees, session_of  # noqa: E402

torch.manual_seed(0)


def norms(dtype: torch.dtype) -> Functions:
    made: Functions = {
        "layer": nn.LayerNorm((5, 7)),
        "layer without": nn.LayerNorm(7, elementwise_affine=False),
        "group": nn.GroupNorm(2, 6),
        "group without": nn.GroupNorm(3, 6, affine=False),
        "instance": nn.InstanceNorm2d(6, affine=True),
        "batch": nn.BatchNorm2d(6),
    }
    return {name: module.eval().to(dtype) for name, module in made.items()}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
def test_types(dtype: torch.dtype, tmp_path: Path) -> None:
    model = Every(norms(dtype)).eval()
    image = torch.randn(2, 6, 5, 7).to(dtype)
    assert_agrees(session_of(model, tmp_path, (image,)), model, (image,))


def test_bfloat16(tmp_path: Path) -> None:
    """Within a network: numpy lacks it, and arrays of it."""
    made = norms(torch.bfloat16)
    model = Every({name: lambda x, norm=norm: norm(x.bfloat16()).float() for name, norm in made.items()})
    image = torch.randn(2, 6, 5, 7)
    session = session_of(model.eval(), tmp_path, (image,))
    found = session.run({"inputs_0": image}).values()
    for name, ours, theirs in zip(made, found, model(image), strict=True):
        torch.testing.assert_close(torch.from_numpy(ours), theirs, rtol=2e-2, atol=2e-2, msg=name)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_statistics(dtype: torch.dtype, tmp_path: Path) -> None:
    model = Every(
        {
            "mean of layers": lambda x: torch.native_layer_norm(x, [5, 7], None, None, 1e-3)[1],
            "deviation of layers": lambda x: torch.native_layer_norm(x, [7], None, None, 1e-3)[2],
            "mean of groups": lambda x: torch.native_group_norm(x, None, None, 2, 6, 35, 3, 1e-3)[1],
            "deviation of groups": lambda x: torch.native_group_norm(x, None, None, 2, 6, 35, 2, 1e-3)[2],
        }
    ).eval()
    image = torch.randn(2, 6, 5, 7).to(dtype)
    assert_agrees(session_of(model, tmp_path, (image,)), model, (image,))


def test_halves_with_parameters_in_single_precision(tmp_path: Path) -> None:
    scale = torch.rand(7)
    model = Every({"layer": lambda x: F.layer_norm(x.half(), (7,), scale)}).eval()
    image = torch.randn(2, 6, 5, 7)
    assert_agrees(session_of(model, tmp_path, (image,)), model, (image,))


def test_layers_of_any_size(tmp_path: Path) -> None:
    class Images(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.layer_norm(x, x.shape[1:])

    rows = torch.export.Dim("rows", min=2, max=50)
    model = Images().eval()
    session = session_of(model, tmp_path, (torch.randn(2, 3, 5, 4),), dynamic_shapes={"x": {2: rows}})
    for count in (5, 9):
        assert_agrees(session, model, (torch.randn(2, 3, count, 4),))
