"""Programs whose complex numbers depend on inputs, in real ones."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from relay_layout.errors import ModelError  # noqa: E402
from relay_layout.frontend import from_torch  # noqa: E402
from tests.relay_layout.frontend.torch.complex_numbers.programs import rewritten  # noqa: E402
from tests.relay_layout.frontend.torch.harness import (  # noqa: E402
    Every,
    Functions,
    assert_agrees,
    session_of,
)

X = torch.arange(12.0).reshape(2, 3, 2)


class Rotated(nn.Module):
    """Positions as numbers that are turned by constant angles."""

    def __init__(self) -> None:
        super().__init__()
        angles = torch.outer(torch.arange(16.0), 10000 ** -(torch.arange(4) / 4))
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        numbers = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
        return torch.view_as_real(numbers * self.turns[: x.shape[1]].unsqueeze(1)).flatten(-2)


def test_rotary_positions_of_any_length(tmp_path: Path) -> None:
    model, x = Rotated().eval(), torch.randn(2, 5, 3, 8)
    dims = {0: torch.export.Dim("batch", min=1, max=8), 1: torch.export.Dim("length", min=2, max=16)}
    session = session_of(model, tmp_path, (x,), dynamic_shapes=(dims,))
    for own in (x, x[:1, :2], torch.cat([x, x, x], 1)):
        assert_agrees(session, model, (own,), str(own.shape))


def test_rotary_positions_that_the_program_makes(tmp_path: Path) -> None:
    def rotated(x: torch.Tensor) -> torch.Tensor:
        turns = torch.polar(torch.ones(3), torch.arange(3) * 0.1)
        return torch.view_as_real(torch.view_as_complex(x) * turns)

    model = Every({"rotated": rotated}).eval()
    assert_agrees(session_of(model, tmp_path, (X,)), model, (X,))


def test_parts_are_taken_without_joining_them() -> None:
    model = Every({"parts": lambda x: torch.fft.rfft(x).real + torch.fft.rfft(x).imag})
    called = [node.target for node in rewritten(model, (X,)).graph.nodes]
    assert torch.ops.aten.cat.default not in called


REFUSED: Functions = {
    "node 'prod': prod.default of complex numbers is not supported; compute with their real and imaginary "
    "parts": lambda x: torch.complex(x, x).prod().abs(),
    "output 0 (node 'complex_1') is complex, which is not supported; return view_as_real of it": (
        lambda x: torch.complex(x, x)
    ),
}


@pytest.mark.parametrize("text", REFUSED, ids=["operation", "output"])
def test_refusals(text: str) -> None:
    with pytest.raises(ModelError) as caught:
        from_torch(Every({"one": REFUSED[text]}).eval(), (X,))
    assert str(caught.value) == f"torch program: {text}"


def test_complex_inputs_are_refused() -> None:
    with pytest.raises(ModelError) as caught:
        from_torch(nn.Identity().eval(), (torch.ones(2, dtype=torch.complex64),))
    assert str(caught.value) == (
        "torch program: input 'input' is complex, which is not supported; make the input view_as_real of it, "
        "and begin with view_as_complex"
    )
