"""Branches and loops of PyTorch: compiled, saved, loaded, run beside PyTorch."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch._higher_order_ops.map import map as map_rows  # noqa: E402
from torch._higher_order_ops.scan import scan  # noqa: E402

import relay_layout  # noqa: E402
from relay_layout.bodies import bodies_of, run_by  # noqa: E402
from tests.relay_layout.frontend.torch.harness import assert_agrees, session_of  # noqa: E402

OPEN = torch.export.Dim.AUTO


def _count(number: int) -> torch.Tensor:
    return torch.tensor(number)


class Choosing(nn.Module):
    """A branch with weights of its own, which reads a buffer and an open extent of what is around."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(3, 4, 1)
        self.register_buffer("scale", torch.rand(4, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.shape[2]
        return torch.cond(
            x.sum() > 0,
            lambda x: self.wide(x).relu() + self.scale * rows,
            lambda x: self.narrow(x) - rows,
            (x,),
        )


class Refining(nn.Module):
    """A loop of convolutions whose trips a tensor counts, and a condition may end; it reads its start."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, ...]:
        def goes_on(i: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return (i < n) & (y.sum() < 1e9)

        def trip(i: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return i + 1, self.layer(y).tanh() + x

        return torch.while_loop(goes_on, trip, (torch.zeros((), dtype=torch.int64), x))


class Mapped(nn.Module):
    """A map over rows, of any number of them or of a known one."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 4)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return map_rows(lambda row, y: self.layer(row) + y, x, y)


class Recurrent(nn.Module):
    """A recurrent layer by hand, as a scan from its end."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(5, 4)

    def forward(self, x: torch.Tensor, h: torch.Tensor) -> Any:
        def step(h: torch.Tensor, row: torch.Tensor) -> tuple[torch.Tensor, ...]:
            h = self.cell(row, h)
            return h, h * 2

        return scan(step, h, x, dim=0, reverse=True)


class Nested(nn.Module):
    """A branch and a loop in a loop; the inner loop takes as many trips as the outer one's number."""

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        def trip(i: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
            y = torch.cond(y.sum() > 0, lambda y: y * 2, lambda y: y.sin() + x.shape[0], (y,))
            _, y = torch.while_loop(lambda j, y: j < i, lambda j, y: (j + 1, y - x), (torch.zeros_like(i), y))
            return i + 1, y

        return torch.while_loop(lambda i, y: i < n, trip, (torch.zeros_like(n), x * 2))[1]


class Numbers(nn.Module):
    """A loop that carries an integer of Python, which its trips compute by."""

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        def trip(i: int, y: torch.Tensor) -> tuple[Any, ...]:
            return i + 2, y * i + x

        return torch.while_loop(lambda i, y: y.sum() < n, trip, (1, x + 0))[1]


class Grown(nn.Module):
    """A branch that an open extent decides on."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.shape[0] > 4, lambda x: x + 1, lambda x: x - 1, (x,))


class Idle(nn.Module):
    """A loop with one in it that reads no trip, and never ends where all elements are less than one."""

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        def trip(i: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
            (squares,) = torch.while_loop(lambda z: z.max() < 100, lambda z: (z * z,), (x,))
            return i + 1, y + squares

        return torch.while_loop(lambda i, y: i < n, trip, (torch.zeros_like(n), x * 2))[1]


def _images(*heights: int) -> list[tuple[Any, ...]]:
    return [(sign * torch.rand(1, 3, height, 6),) for height in heights for sign in (1, -1)]


ROWS = [(torch.randn(rows, 2, 5), torch.randn(2, 4)) for rows in (7, 1, 2)]

CASES: dict[str, tuple[Callable[[], nn.Module], list[tuple[Any, ...]], Any, int]] = {
    "branch": (Choosing, _images(5, 8), ({2: OPEN},), 2),
    "loop": (
        Refining,
        [(torch.rand(1, 3, h, 6), _count(n)) for h, n in ((5, 3), (7, 0))],
        ({2: OPEN}, None),
        1,
    ),
    "map": (Mapped, ROWS, ({0: OPEN}, None), 2),
    "scan": (Recurrent, ROWS, ({0: OPEN}, None), 2),
    "nested": (Nested, [(torch.randn(3, 4), _count(n)) for n in (3, 0, 1)], None, 4),
    "numbers": (Numbers, [(torch.rand(3, 4), _count(n)) for n in (90, 0)], None, 1),
    "extent": (Grown, [(torch.randn(rows, 3),) for rows in (7, 4)], ({0: OPEN},), 2),
}
"""A module, inputs of which the first are the example, what is open, and how many bodies there are."""


@pytest.mark.parametrize("case", CASES)
def test_what_the_data_decide_agrees_with_pytorch(case: str, tmp_path: Path) -> None:
    torch.manual_seed(3)
    make, inputs, dynamic, bodies = CASES[case]
    model = make().eval()
    program = torch.export.export(model, inputs[0], dynamic_shapes=dynamic, strict=False)
    assert len(bodies_of(relay_layout.from_torch(program))) == bodies
    session = session_of(program, tmp_path)
    for given in inputs:
        assert_agrees(session, model, given, str([tuple(one.shape) for one in given]))


def test_loops_of_no_trip_do_not_run(tmp_path: Path) -> None:
    model, inputs = Idle().eval(), [(torch.full((3,), start), _count(n)) for start, n in ((2.0, 2), (0.5, 0))]
    program = torch.export.export(model, inputs[0], strict=False)
    assert len(run_by(relay_layout.from_torch(program)["main"])) == 1
    session = session_of(program, tmp_path)
    for given in inputs:
        assert_agrees(session, model, given, str(given))
