"""Branches and loops of PyTorch: compiled, saved, loaded, run beside PyTorch."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch._higher_order_ops.associative_scan import associative_scan  # noqa: E402
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


class Counting(nn.Module):
    """A layer as often as a constant says, with its number."""

    def __init__(self, trips: int) -> None:
        super().__init__()
        self.layer, self.trips = nn.Linear(4, 4), trips

    def forward(self, x: torch.Tensor) -> Any:
        def trip(i: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return i + 1, self.layer(y).sin() + i % 3

        return torch.while_loop(lambda i, y: i < self.trips, trip, (torch.zeros((), dtype=torch.int64), x))


class Flagged(nn.Module):
    """A branch that a constant decides on, of which the other one cannot be read."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("flag", torch.tensor(True))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(self.flag, torch.exp, lambda x: torch.linalg.svd(x)[1].sum() + x, (x,))


class Inner(nn.Module):
    """Three trips within as many as a tensor says."""

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        def trip(i: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return i + 1, torch.while_loop(
                lambda j, y: j < 3, lambda j, y: (j + 1, (y + j).tanh()), (torch.zeros_like(i), y)
            )[1]

        return torch.while_loop(lambda i, y: i < n, trip, (torch.zeros_like(n), x * 2))[1]


class Cells(nn.Module):
    """Cells of all kinds, in a loop that carries what it reads as it was at first, too."""

    def __init__(self) -> None:
        super().__init__()
        kinds = (nn.GRUCell(4, 4), nn.RNNCell(4, 4), nn.RNNCell(4, 4, bias=False, nonlinearity="relu"))
        self.cells, self.long = nn.ModuleList(kinds), nn.LSTMCell(4, 4)

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        def trip(i: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
            for cell in self.cells:
                y = cell(x, y)
            return i + 1, torch.cat(self.long(x, (y, y)), 1)[:, 2:6].clone()

        return torch.while_loop(lambda i, y: i < n, trip, (torch.zeros_like(n), x))[1]


class Cumulated(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return associative_scan(lambda one, other: one * other, x, 0, combine_mode="generic")


class Picking(nn.Module):
    """A body that counts what it finds, and one that draws on a kernel of its own."""

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        def trip(i: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return i + 1, (y + y[y > 0].mean()).cos()

        return torch.while_loop(lambda i, y: i < n, trip, (torch.zeros_like(n), x * 2))[1]


X = torch.linspace(-1, 1, 12).reshape(3, 4)

KNOWN: dict[str, tuple[nn.Module, tuple[Any, ...], list[str]]] = {
    "trips": (Counting(5), (X,), []),
    "too many trips": (Counting(3000), (X,), ["while_loop"]),
    "no trip": (Counting(0), (X,), []),
    "condition": (Flagged(), (X,), []),
    "inner trips": (Inner(), (X, _count(2)), ["while_loop"]),
    "rows": (Mapped(), ROWS[0], []),
    "cells": (Cells(), (X, _count(3)), ["while_loop"]),
    "associative": (Cumulated(), (X,), []),
    "kernels of bodies": (Picking(), (X, _count(2)), ["while_loop"]),
}
"""A module, its inputs, and the bodies that it has."""


@pytest.mark.parametrize("case", KNOWN)
def test_what_is_known_is_written_out(case: str, tmp_path: Path) -> None:
    model, inputs, bodies = KNOWN[case]
    program = torch.export.export(model.eval(), inputs, strict=False)
    assert list(bodies_of(relay_layout.from_torch(program))) == bodies
    assert_agrees(session_of(program, tmp_path), model, inputs)


def test_weights_of_bodies_are_constants_in_the_layout_of_the_target() -> None:
    program = torch.export.export(Refining().eval(), (torch.rand(1, 3, 5, 6), _count(3)), strict=False)
    wanted = {"nn.conv2d": ["NHWC", "default"]}
    converted = relay_layout.convert(
        relay_layout.from_torch(program), target="x86-64-v4", desired_layouts=wanted
    )
    assert list(converted.report["layouts"].values()) == ["NHWC->NHWC"]
    assert converted.report["layout_transforms_weights"] == 0


def test_bodies_know_given_shapes() -> None:
    program = torch.export.export(
        Refining().eval(), (torch.rand(1, 3, 5, 6), _count(3)), dynamic_shapes=({2: OPEN}, None), strict=False
    )
    module = relay_layout.from_torch(program, input_shapes={"x": [1, 3, 9, 6]})
    (body,) = bodies_of(module).values()
    assert [int(extent) for extent in body.params[2].ty.shape] == [1, 3, 9, 6]


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
