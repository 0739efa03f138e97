"""Operands whose open extents a program takes for equal, beside PyTorch's numbers."""

from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch.export import Dim  # noqa: E402
from torch.nn import functional  # noqa: E402
from tvm import tirx  # noqa: E402

from relay_layout.errors import InputError  # noqa: E402
from relay_layout.frontend.torch.extents.agreement import is_computed_of, is_plainer  # noqa: E402
from tests.relay_layout.frontend.torch.harness import assert_agrees, session_of  # noqa: E402

Function = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

SIZES = [((2, 3, 7, 12), (2, 3, 8, 11)), ((3, 3, 5, 6), (3, 3, 5, 5)), ((1, 3, 10, 4), (1, 3, 9, 3))]
"""Of which both halves are one size."""


def replaced(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    both = x.new_zeros(x.shape[0], 6, *x.shape[2:])
    both[:, :3] = x
    both[:, 3:] = y
    return both


def of_pixels(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.bmm(x.permute(0, 2, 3, 1).flatten(0, 1), y.permute(0, 2, 1, 3).flatten(0, 1))


FUNCTIONS: dict[str, Function] = {
    "sum": lambda x, y: functional.relu(x + y),
    "concatenation": lambda x, y: functional.avg_pool2d(torch.cat([x, y], 1), 1),
    "copies": lambda x, y: x.mean(1, keepdim=True).expand_as(y) * 2,
    "parts of a tensor": replaced,
    "products": of_pixels,
    "products of rows with columns": lambda x, y: x.mean((0, 1)).mT @ y.mean((0, 1)),
}


class Halved(torch.nn.Module):
    """A function of what two windows of stride two leave of two images."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function
        self.convolution = torch.nn.Conv2d(3, 3, 3, 2, 1)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.function(self.convolution(x), functional.avg_pool2d(y, 2, ceil_mode=True))


class Of(torch.nn.Module):
    """A function of one image, behind a convolution."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function
        self.convolution = torch.nn.Conv2d(3, 3, 3, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self.convolution(x))


def compiled(function: Function, folder: Path) -> tuple[torch.nn.Module, object]:
    torch.manual_seed(0)
    model = Halved(function).eval()
    shapes = ({axis: Dim.AUTO for axis in (0, 2, 3)},) * 2
    return model, session_of(model, folder, tuple(map(torch.randn, SIZES[0])), dynamic_shapes=shapes)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_two_images(name: str, tmp_path: Path) -> None:
    model, session = compiled(FUNCTIONS[name], tmp_path)
    for sizes in SIZES:
        assert_agrees(session, model, tuple(map(torch.randn, sizes)), str(sizes))


def test_images_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    _, session = compiled(FUNCTIONS["sum"], tmp_path)
    first, other = (torch.randn(2, 3, 9, 12).numpy(), torch.randn(2, 3, 5, 12).numpy())
    with pytest.raises(InputError, match=r"the model was exported for inputs of which .*shape\[2\]"):
        session.run({"x": first, "y": other})


def by_pixels(x: torch.Tensor) -> torch.Tensor:
    batch, channels, height, width = x.shape
    cut = x.reshape(batch, channels, height // 4, 4, width // 4, 4).permute(0, 2, 4, 1, 3, 5)
    cut = cut.reshape(batch, -1, channels, 16) * 2
    cut = cut.reshape(batch, height // 4, width // 4, channels, 4, 4).permute(0, 3, 1, 4, 2, 5)
    return x + cut.reshape(batch, channels, height, width)


def doubled(x: torch.Tensor) -> torch.Tensor:
    return functional.pixel_shuffle(functional.avg_pool2d(x, 2).repeat(1, 4, 1, 1), 2)


PARTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sum": lambda x: by_pixels(x) + doubled(x),
    "sum in another order": lambda x: doubled(x) + by_pixels(x),
    "copies": lambda x: doubled(x)[:, :1].expand(by_pixels(x).shape) * 2,
}


@pytest.mark.parametrize("name", PARTS)
def test_an_image_beside_what_its_parts_are_joined_to(name: str, tmp_path: Path) -> None:
    model = Of(PARTS[name]).eval()
    shapes = ({axis: Dim.AUTO for axis in (0, 2, 3)},)
    session = session_of(model, tmp_path, (torch.randn(2, 3, 16, 24),), dynamic_shapes=shapes)
    assert_agrees(session, model, (torch.randn(3, 3, 16, 8),))


def test_no_variable_is_replaced_by_what_is_computed_of_it() -> None:
    size, other = tirx.Var("s", "int64"), tirx.Var("t", "int64")
    assert is_computed_of(size // 2 * 2, size)
    assert not any(
        (
            is_computed_of(size, size),
            is_computed_of(other, size),
            is_computed_of(4, size),
            is_computed_of(size, size // 2 * 2),
        )
    )
    assert is_plainer(size // 2 * 2, size) and is_plainer(4, size // 2)
    assert not any((is_plainer(size, size // 2), is_plainer(size // 2, 4), is_plainer(other, size)))
