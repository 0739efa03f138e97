"""Numbers computed of open extents, at several sizes, beside PyTorch's."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.export import Dim  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from relay_layout.errors import ModelError  # noqa: E402
from tests.relay_layout.frontend.torch.harness import assert_agrees, session_of  # noqa: E402

Function = Callable[[torch.Tensor, Any, Any], torch.Tensor]

SIZES = [(2, 3, 9, 7), (1, 3, 12, 10), (3, 3, 31, 20)]

NUMBERS: dict[str, Function] = {
    "divided": lambda x, h, w: x * (w / h) + (h - 1) / 2,
    "a part of one": lambda x, h, w: x / (1 - 1 / w),
    "root": lambda x, h, w: x / h**0.5,
    "scaled by the root": lambda x, h, w: x * w**-0.5,
    "exponent": lambda x, h, w: torch.pow(x.abs(), w / 10),
    "factor of what is added": lambda x, h, w: x.add(x, alpha=h),
    "filled in": lambda x, h, w: x.masked_fill(x > 0, w),
    "chosen": lambda x, h, w: torch.where(x > 0, x, h / 2),
    "elements": lambda x, h, w: x.new_full((1, 3, h, 1), w * 0.5) + x,
    "of a tensor": lambda x, h, w: torch.tensor([h, w]) * 2,
    "bounds": lambda x, h, w: x.clamp(-h / 10, w / 20),
    "compared": lambda x, h, w: (x > h).float(),
    "larger": lambda x, h, w: x * max(h, w) - min(h, w),
    "deviation and mean": lambda x, h, w: torch.cat(torch.std_mean(x, (2, 3))),
    "scaled and cut off": lambda x, h, w: F.interpolate(
        x, (torch.sym_int(h * 1.5), math.trunc(w / 0.7)), mode="bilinear"
    ),
    "scaled and made whole": lambda x, h, w: F.interpolate(x, (math.ceil(h / 4 + 1), math.ceil(w * 0.3))),
    "cut off below zero": lambda x, h, w: x * torch.sym_int(h * -0.5) + math.trunc((w - 10) * 0.5),
    "rounded below zero": lambda x, h, w: x * math.floor(h * -0.5) + math.ceil((w - 10) * 0.5),
    "rows from the end": lambda x, h, w: x[:, :, math.trunc(h * -0.25) :] + 1,
    "square": lambda x, h, w: x * h**2,
    "every half": lambda x, h, w: F.interpolate(x, scale_factor=0.5, mode="area"),
}


class Numbers(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(function(x, *x.shape[2:]) for function in NUMBERS.values())


def test_numbers_agree(tmp_path: Path) -> None:
    model = Numbers().eval()
    axes = {axis: Dim.AUTO for axis in (0, 2, 3)}
    session = session_of(model, tmp_path, (torch.randn(SIZES[0]),), dynamic_shapes=(axes,))
    for size in SIZES:
        assert_agrees(session, model, (torch.randn(size),), str(size))


def test_what_no_fraction_gives_is_refused(tmp_path: Path) -> None:
    class Odd(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.interpolate(x, (math.floor(x.shape[2] * 0.1234), 5))

    with pytest.raises(ModelError) as raised:
        session_of(Odd().eval(), tmp_path, (torch.randn(1, 3, 40, 7),), dynamic_shapes=({2: Dim.AUTO},))
    assert str(raised.value).endswith(
        ": an extent that is a multiple of 0.1234, rounded, is not supported; divide integers by "
        "// or give the input a fixed size"
    )
