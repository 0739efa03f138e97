"""Inputs of which extents are multiples of others, beside PyTorch's numbers."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.export import Dim  # noqa: E402

import relay_layout  # noqa: E402
from relay_layout.errors import InputError, ModelError  # noqa: E402
from tests.relay_layout.frontend.torch.harness import assert_agrees, session_of  # noqa: E402

torch.manual_seed(0)


class Halved(nn.Module):
    """Down to half the size and up again, as U-Nets are."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.inner = nn.Conv2d(8, 16, 3, padding=1)
        self.last = nn.Conv2d(24, 8, 3, padding=1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        wide = torch.relu(self.norm(self.first(image)))
        inner = torch.relu(self.inner(nn.functional.max_pool2d(wide, 2)))
        up = nn.functional.interpolate(inner, scale_factor=2, mode="bilinear")
        return self.last(torch.cat([wide, up], 1))


class Both(nn.Module):
    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return (left * 2)[:, ::2] + right[:, :-1]


def shapes() -> Any:
    rows, columns = Dim("rows", min=2, max=90), Dim("columns", min=2, max=90)
    return {"image": {0: Dim("batch"), 2: 2 * rows, 3: 2 * columns}}


@pytest.mark.parametrize("desired_layout", ["auto", "NHWC", "NCHW8c"])
def test_every_even_size(desired_layout: str, tmp_path: Path) -> None:
    model = Halved().eval()
    example = (torch.randn(2, 3, 16, 20),)
    session = session_of(model, tmp_path, example, dynamic_shapes=shapes(), desired_layout=desired_layout)
    for size in ((2, 3, 16, 20), (1, 3, 6, 34), (3, 3, 30, 8)):
        assert_agrees(session, model, (torch.randn(*size),), str(size))


def test_odd_sizes_are_refused_where_they_come(tmp_path: Path) -> None:
    session = session_of(Halved().eval(), tmp_path, (torch.randn(2, 3, 16, 20),), dynamic_shapes=shapes())
    with pytest.raises(InputError) as caught:
        session.run({"image": torch.zeros(1, 3, 17, 20)})
    assert str(caught.value) == (
        "the model was exported for inputs of which 2 * (image.shape[2] // 2) == image.shape[2], "
        "got image.shape[2] = 17"
    )


def test_multiples_that_no_guard_asks_for_are_refused_where_they_come(tmp_path: Path) -> None:
    model, given = torch.nn.ReLU().eval(), {"input": {0: 4 * Dim("rows", min=2, max=9)}}
    session = session_of(model, tmp_path, (torch.randn(8, 3),), dynamic_shapes=given)
    assert_agrees(session, model, (torch.randn(12, 3),))
    with pytest.raises(InputError) as caught:
        session.run({"input": torch.zeros(14, 3)})
    assert str(caught.value) == (
        "the model was exported for inputs of which input.shape[0] % 4 == 0, got input.shape[0] = 14"
    )


def test_one_multiple_decides_for_others(tmp_path: Path) -> None:
    width = Dim("width", min=2, max=50)
    model, inputs = Both().eval(), (torch.randn(3, 12), torch.randn(3, 7))
    given = {"left": {1: 2 * width}, "right": {1: width + 1}}
    session = session_of(model, tmp_path, inputs, dynamic_shapes=given)
    for count in (6, 9):
        assert_agrees(session, model, (torch.randn(3, 2 * count), torch.randn(3, count + 1)))
    with pytest.raises(InputError, match=r"got left.shape\[1\] = 12, right.shape\[1\] = 6"):
        session.run({"left": torch.zeros(3, 12), "right": torch.zeros(3, 6)})


def test_sizes_beyond_the_bounds_are_refused(tmp_path: Path) -> None:
    """The program was exported for up to 90 times two rows, and from two on."""
    session = session_of(Halved().eval(), tmp_path, (torch.randn(2, 3, 16, 20),), dynamic_shapes=shapes())
    for rows in (2, 182):
        with pytest.raises(InputError, match=f"input 'image': .*{rows}"):
            session.run({"image": torch.zeros(1, 3, rows, 20)})


def test_shapes_that_contradict_each_other() -> None:
    width = Dim("width", min=2, max=50)
    given = {"left": {1: 2 * width}, "right": {1: width + 1}}
    program = torch.export.export(
        Both().eval(), (torch.randn(3, 12), torch.randn(3, 7)), dynamic_shapes=given
    )
    with pytest.raises(ModelError, match=r"left\.shape\[1\] = 8, right\.shape\[1\] = 6"):
        relay_layout.from_torch(program, input_shapes={"left": (3, 8), "right": (3, 6)})
    module = relay_layout.from_torch(program, input_shapes={"left": (3, 8)})
    assert [int(extent) for extent in module["main"].params[1].ty.shape] == [3, 5]


def test_sizes_may_be_given() -> None:
    program = torch.export.export(Halved().eval(), (torch.randn(2, 3, 16, 20),), dynamic_shapes=shapes())
    with pytest.raises(ModelError, match=r"image\.shape\[2\] = 15"):
        relay_layout.from_torch(program, input_shapes={"image": (1, 3, 15, 20)})
    module = relay_layout.from_torch(program, input_shapes={"image": (1, 3, 14, 20)})
    assert [int(extent) for extent in module["main"].params[0].ty.shape] == [1, 3, 14, 20]
