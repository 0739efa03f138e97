"""Extents that views and guards say to be numbers: sides of patches, and the one pixel that is left."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch.export import Dim  # noqa: E402

from relay_layout.errors import InputError  # noqa: E402
from tests.relay_layout.frontend.torch.harness import assert_agrees, session_of  # noqa: E402


class Patches(torch.nn.Module):
    """Squares of pixels, each by one matrix, normalized and projected."""

    def __init__(self, side: int) -> None:
        super().__init__()
        self.side = side
        self.norm, self.project = torch.nn.LayerNorm(3 * side * side), torch.nn.Linear(3 * side * side, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, channels, height, width = x.shape
        rows, columns = height // self.side, width // self.side
        cut = x.reshape(batch, channels, rows, self.side, columns, self.side).permute(0, 2, 4, 3, 5, 1)
        return self.project(self.norm(cut.reshape(batch, rows * columns, channels * self.side**2)))


class Windows(torch.nn.Module):
    """Squares of pixels by channels, as many as there are: their number is for PyTorch to find."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, channels, height, width = x.shape
        cut = x.reshape(batch, channels, height // 4, 4, width // 4, 4).permute(0, 2, 4, 1, 3, 5)
        return cut.reshape(batch, -1, channels, 16) * 2


class Shrunk(torch.nn.Module):
    """Attention among the pixels that are left, beside these pixels: of a small example it is one."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.mix = torch.nn.Conv2d(3, 4, 3, 8, 1), torch.nn.Conv2d(8, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        image = self.down(x)
        batch, channels, height, width = image.shape
        pixels = image.flatten(2)
        seen = pixels @ (pixels.transpose(1, 2) @ pixels)
        return self.mix(torch.cat([seen.reshape(batch, channels, height, width), image], 1))


class Steps(torch.nn.Module):
    """Every other pixel divided by the step between them, beside a ramp as long as the example's pixels."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pixels = x[:, ::2]
        length = pixels.shape[1]
        return torch.linspace(-1, 1, 8).view(1, length) + pixels / ((length - 1.0) / 2.0)


def test_numbers_of_a_known_extent(tmp_path: Path) -> None:
    network = Steps().eval()
    opened = ({0: Dim.AUTO, 1: Dim.AUTO},)
    session = session_of(network, tmp_path, (torch.rand(2, 16),), dynamic_shapes=opened)
    assert_agrees(session, network, (torch.rand(4, 15),))


def test_one_pixel(tmp_path: Path) -> None:
    network = Shrunk().eval()
    images = ({0: Dim.AUTO, 2: Dim.AUTO, 3: Dim.AUTO},)
    session = session_of(network, tmp_path, (torch.rand(2, 3, 8, 8),), dynamic_shapes=images)
    assert_agrees(session, network, (torch.rand(3, 3, 5, 4),))
    with pytest.raises(InputError, match="9, the model was exported for sizes 0 to 8"):
        session.run({"x": torch.rand(1, 3, 9, 8)})


def test_patches(tmp_path: Path) -> None:
    network = Patches(3).eval()
    images = ({0: Dim.AUTO, 2: Dim.AUTO, 3: Dim.AUTO},)
    session = session_of(network, tmp_path, (torch.rand(2, 3, 12, 18),), dynamic_shapes=images)
    assert_agrees(session, network, (torch.rand(3, 3, 15, 21),))
    with pytest.raises(InputError, match=r"x\.shape\[2\]"):
        session.run({"x": torch.rand(1, 3, 16, 21)})


def test_a_number_of_windows_that_is_left_to_be_found(tmp_path: Path) -> None:
    network = Windows().eval()
    images = ({0: Dim.AUTO, 2: Dim.AUTO, 3: Dim.AUTO},)
    session = session_of(network, tmp_path, (torch.rand(2, 3, 16, 24),), dynamic_shapes=images)
    assert_agrees(session, network, (torch.rand(3, 3, 8, 12),))
