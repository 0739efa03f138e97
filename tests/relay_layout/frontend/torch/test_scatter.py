"""What PyTorch writes at places that are computed, beside PyTorch's numbers."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch.export import Dim  # noqa: E402
from torch.nn import functional  # noqa: E402

from relay_layout import from_torch  # noqa: E402
from relay_layout.errors import ModelError  # noqa: E402
from tests.relay_layout.frontend.torch.harness import Every, Functions, assert_agrees, session_of  # noqa: E402

PLACES = torch.tensor([[0, 2, 0], [1, 0, 0]])
"""Of two of three rows, twice to one place and never to some."""

REDUCTIONS: Functions = {
    f"{name} {own}": lambda x, name=name, own=own: x.scatter_reduce(-1, PLACES, x + 1, name, include_self=own)
    for name in ("sum", "mean", "prod", "amax", "amin")
    for own in (True, False)
}
WRITTEN: Functions = {
    "sums": lambda x: x.scatter(1, PLACES, 2 * x, reduce="add"),
    "products": lambda x: x.scatter(1, PLACES, 3, reduce="multiply"),
}


FIRST, SECOND = torch.tensor([1, 0, -1]), torch.tensor([3, -2, 0])


def put(x: torch.Tensor, value: float | torch.Tensor, *index: object) -> torch.Tensor:
    x = x * 2
    x[index] = value
    return x


ALL = slice(None)
PUT: Functions = {
    "at places": lambda x: put(x, 1.5, ALL, FIRST),
    "rows at places": lambda x: put(x, x[0, :3], 0, FIRST),
    "at places apart": lambda x: put(x, 1.5, slice(2), FIRST, ALL, SECOND),
    "rows at places apart": lambda x: put(x, x[0, 0, :, 0], ALL, FIRST, ALL, SECOND),
    "added at places": lambda x: x.index_put((FIRST[:, None], SECOND[:2].abs()), x[0, 0, 0, 0], True),
    "where a mask holds": lambda x: put(x, 0.5, x > 0),
    "rows where a mask holds": lambda x: put(x, torch.tensor([0.5]), ALL, x[0, :, :, 0] > 0),
    "added where a mask holds": lambda x: x.index_put((x[:, 0, 0, 0] > 0,), torch.tensor(2.0), True),
    "every second": lambda x: put(x, x[:, :, 1::2] - 1, ALL, ALL, slice(1, None, 2)),
    "every third from within": lambda x: put(x, 3.0, ALL, ALL, ALL, slice(2, -1, 3)),
    "sums of rows": lambda x: x.index_add(2, FIRST.abs(), x[:, :, :3]),
    "scattered": lambda x: torch.zeros_like(x).scatter(1, x.argmax(1, keepdim=True), 1.0),
    "scattered sums": lambda x: torch.zeros_like(x).scatter_add(1, x.argmax(1, keepdim=True), x[:, :1]),
    "folded windows": lambda x: functional.fold(functional.unfold(x, 3, 1, 1, 2), x.shape[2:], 3, 1, 1, 2),
    "windows": lambda x: x.unfold(2, 3, 2).unfold(-2, 4, 4).contiguous(),
}


def test_writing_to_open_extents(tmp_path: Path) -> None:
    model, sizes = Every(PUT).eval(), [(2, 4, 9, 17), (3, 4, 12, 30), (2, 4, 7, 21)]
    axes = {axis: Dim.AUTO for axis in (0, 2, 3)}
    session = session_of(model, tmp_path, (torch.randn(sizes[0]),), dynamic_shapes=((axes,),))
    for size in sizes:
        assert_agrees(session, model, (torch.randn(size),), str(size))


SPREAD = torch.tensor([0, 2, 0])


def test_rows_combined_by_an_index(tmp_path: Path) -> None:
    ways = [(reduce, own) for reduce in ("prod", "mean", "amax", "amin") for own in (True, False)]
    model = Every(
        {
            f"{reduce} {own}": lambda x, reduce=reduce, own=own: x.index_reduce(
                -2, SPREAD, x * 2, reduce, include_self=own
            )
            for reduce, own in ways
        }
    ).eval()
    x = torch.randn(2, 3, 4)
    assert_agrees(session_of(model, tmp_path, (x,)), model, (x,))


def test_elements_put_in_a_row(tmp_path: Path) -> None:
    values = torch.tensor([1.0, 2.0, 3.0])
    model = Every(
        {
            "put": lambda x: x.put(torch.tensor([[0, 5, -1]]), values.view(1, 3)),
            "added": lambda x: x.put(torch.tensor([0, 0, 5]), values, accumulate=True),
        }
    ).eval()
    x = torch.randn(2, 3)
    assert_agrees(session_of(model, tmp_path, (x,)), model, (x,))


def on_diagonal(x: torch.Tensor, offset: int, *dims: int) -> torch.Tensor:
    """``x`` with the same elements of itself, reversed, on one of its diagonals."""
    return torch.diagonal_scatter(x, x.diagonal(offset, *dims).flip(-1), offset, *dims)


def added_in_place(x: torch.Tensor) -> torch.Tensor:
    x = x * 2
    x.diagonal(dim1=-2, dim2=-1).add_(1)
    return x


DIAGONALS: Functions = {
    **{
        f"{offset} of {first} and {second}": lambda x, at=(offset, first, second): on_diagonal(x, *at)
        for offset in (0, 1, -2, 3)
        for first, second in ((0, 1), (1, 0), (0, 2), (2, 1), (-1, -3))
    },
    "added in place": added_in_place,
    "filled": lambda x: (x[0] @ x[0].t()).fill_diagonal_(float("-inf")).softmax(-1),
    "by strides": lambda x: torch.as_strided_scatter(x, x[:2, :2, 0], (2, 2), (1, 7), 3),
}


def test_diagonals(tmp_path: Path) -> None:
    model, x = Every(DIAGONALS).eval(), torch.randn(4, 5, 6)
    assert_agrees(session_of(model, tmp_path, (x,)), model, (x,))


@pytest.mark.filterwarnings("ignore:The reduce argument")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.int32], ids=str)
def test_reductions(dtype: torch.dtype, tmp_path: Path) -> None:
    model = Every({**REDUCTIONS, **WRITTEN}).eval()
    x = torch.tensor([[3, -5, 2, 7], [-4, 6, -1, 8], [9, 1, -7, -2]]).to(dtype)
    assert_agrees(session_of(model, tmp_path, (x,)), model, (x,))


def test_truth_values_are_refused() -> None:
    model = Every({"truth": lambda x: x.scatter_reduce(1, PLACES, x, "amax")}).eval()
    with pytest.raises(ModelError) as raised:
        from_torch(model, (torch.zeros(3, 4, dtype=torch.bool),))
    assert str(raised.value) == "node 'scatter_reduce': scatter_reduce by amax of bool is not supported"
