"""Views that PyTorch copies, in memory of their own and in plain order, as it leaves them."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from tests.relay_layout.frontend.torch.harness import Every, Functions, assert_agrees, session_of  # noqa: E402

COPIES: Functions = {
    "detached": torch.detach_copy,
    "selected": lambda x: torch.select_copy(x, 1, -1),
    "sliced": lambda x: torch.slice_copy(x, 2, 1, 4, 2),
    "split": lambda x: torch.split_copy(x, 2, 1)[1],
    "real and imaginary parts": lambda x: torch.view_as_real_copy(torch.complex(x, 2 * x)),
    "complex numbers": lambda x: torch.view_as_complex_copy(torch.stack([x, 2 * x], -1)).imag.contiguous(),
}


def test_copies_of_views(tmp_path: Path) -> None:
    model = Every(COPIES).eval()
    x = torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last)
    assert_agrees(session_of(model, tmp_path, (x,)), model, (x,))
