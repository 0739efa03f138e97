"""Programs whose images have to be of sizes that are multiples, which export writes down as guards alone."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch.export import Dim  # noqa: E402
from torch.nn import functional  # noqa: E402

from relay_layout.errors import InputError  # noqa: E402
from tests.relay_layout.frontend.torch.harness import assert_agrees, session_of  # noqa: E402

IMAGES = ({0: Dim.AUTO, 2: Dim.AUTO, 3: Dim.AUTO},)


class Branches(torch.nn.Module):
    """Two resolutions, of which one is halved and doubled."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.down = (torch.nn.Conv2d(3, 3, 3, 2, 1) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        fine = self.stem(x)
        return fine + functional.interpolate(self.down(fine), scale_factor=2)


class Focus(torch.nn.Module):
    """Every other pixel, and those between."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(6, 4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(torch.cat([x[:, :, ::2], x[:, :, 1::2]], 1))


class Columns(torch.nn.Module):
    """Columns that are as many as the image has, which fixes them."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(4, 2, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        ramp = torch.linspace(-1, 1, x.shape[3]).expand(x.shape[0], 1, x.shape[2], x.shape[3])
        return self.conv(torch.cat([x, ramp], 1))


class Windows(torch.nn.Module):
    """Pixels that are moved along, cut into windows of four by four, and put back, as Swin has it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.conv = torch.nn.Linear(3, 3), torch.nn.Conv2d(3, 2, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, channels, rows, columns = x.shape
        moved = x.permute(0, 2, 3, 1).roll((-2, -2), (1, 2))
        cut = moved.view(batch, rows // 4, 4, columns // 4, 4, channels).permute(0, 1, 3, 2, 4, 5)
        windows = self.inner(cut.reshape(-1, 16, channels)).view(
            batch, rows // 4, columns // 4, 4, 4, channels
        )
        image = windows.permute(0, 1, 3, 2, 4, 5).reshape(batch, rows, columns, channels)
        return self.conv(x + image.roll((2, 2), (1, 2)).permute(0, 3, 1, 2))


@pytest.mark.parametrize(
    ("network", "fitting", "other", "told"),
    [
        (Windows, (1, 3, 12, 20), (1, 3, 14, 20), r"x\.shape\[2\] % 4 == 0, got x\.shape\[2\] = 14"),
        (Branches, (1, 3, 12, 20), (1, 3, 14, 20), r"x\.shape\[2\] % 4 == 0, got x\.shape\[2\] = 14"),
        (Focus, (2, 3, 10, 9), (2, 3, 11, 9), r"x\.shape\[2\] % 2 == 0, got x\.shape\[2\] = 11"),
        (Columns, (3, 3, 9, 24), (3, 3, 9, 23), "expected float32"),
    ],
)
def test_sizes_that_guards_leave(
    network: type, fitting: tuple[int, ...], other: tuple[int, ...], told: str, tmp_path: Path
) -> None:
    module = network().eval()
    session = session_of(module, tmp_path, (torch.randn(2, 3, 16, 24),), dynamic_shapes=IMAGES)
    assert_agrees(session, module, (torch.randn(fitting),))
    with pytest.raises(InputError, match=told):
        session.run({"x": torch.zeros(other)})


def test_bounds_of_sizes_are_kept(tmp_path: Path) -> None:
    dynamic = ({2: Dim.AUTO(min=5, max=31)},)
    module = Focus().eval()
    session = session_of(module, tmp_path, (torch.randn(1, 3, 16, 8),), dynamic_shapes=dynamic)
    assert_agrees(session, module, (torch.randn(1, 3, 30, 8),))
    for rows in (4, 32):
        with pytest.raises(InputError, match=f"dimension 2 .* is {rows}, the model was exported for sizes"):
            session.run({"x": torch.zeros(1, 3, rows, 8)})
