"""What moves, sums and makes complex tensors does it with both of their parts."""

import pytest

torch = pytest.importorskip("torch")

from tests.relay_layout.frontend.torch.complex_numbers.programs import assert_keeps  # noqa: E402
from tests.relay_layout.frontend.torch.harness import Functions  # noqa: E402

VALUE = torch.complex(torch.arange(24.0).reshape(2, 3, 4) - 7, torch.arange(24.0).reshape(2, 3, 4).flip(0))
MASK = torch.tensor([True, False, True, False])


def written(x: torch.Tensor) -> torch.Tensor:
    """Into slices of zeros, as spectral layers write the modes that they keep."""
    whole = torch.zeros(2, 5, 4, dtype=torch.complex64)
    whole[:, 1:3, :2] = x[:, :2, 2:]
    whole[:, -1] = x[:, 0].real
    return whole


MOVED: Functions = {
    "reshaped": lambda x: x.reshape(6, 4).unflatten(0, (3, 2)).unsqueeze(1).squeeze(1),
    "permuted": lambda x: x.permute(2, 0, 1).transpose(0, 1).flip(0).contiguous(),
    "cut": lambda x: x[:, 1:, ::2] + x[:, :2, -1:],
    "split": lambda x: torch.cat([x.split(2, 2)[1], x.chunk(2, 2)[0], x.unbind(2)[3].unsqueeze(2)], 2),
    "joined with reals": lambda x: torch.cat([x, x.real], 1),
    "repeated": lambda x: x.repeat(1, 2, 1).roll(1, 2),
    "padded in circles": lambda x: torch.nn.functional.pad(x, (1, 2), "circular"),
    "summed": lambda x: x.sum(1) + x.mean(1) + x.cumsum(1)[:, 2] + x.sum() - x.mean(),
    "chosen": lambda x: torch.where(MASK, x, x.real) + torch.where(MASK, 0, x),
    "masked": lambda x: x.masked_fill(MASK, 3),
    "written": written,
    "filled": lambda x: torch.zeros_like(x) + torch.ones_like(x) + torch.full_like(x, 2 - 1j),
    "parts": lambda x: x.real * 2 + x.imag,
    "windows": lambda x: x.unfold(2, 2, 1),
}


def test_both_parts_are_moved() -> None:
    assert_keeps(MOVED, VALUE)
