"""Bags of rows of a table, beside PyTorch's numbers."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.export import Dim  # noqa: E402
from torch.nn import functional  # noqa: E402

from relay_layout.errors import ModelError  # noqa: E402
from tests.relay_layout.frontend.torch.harness import assert_agrees, session_of  # noqa: E402

OFFSETS = torch.tensor([0, 3, 3, 5])


class Bags(torch.nn.Module):
    """Of every mode, with and without rows that do not count."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.register_buffer("table", torch.randn(10, 4, generator=torch.Generator().manual_seed(1)))
        self.options = options

    def forward(self, indices: torch.Tensor, offsets: Any = None) -> tuple[torch.Tensor, ...]:
        return tuple(
            functional.embedding_bag(
                indices, self.table, offsets, mode=mode, padding_idx=padding, **self.options
            )
            for mode in ("sum", "mean", "max")
            for padding in (None, 2)
        )


def numbers(*shape: int) -> torch.Tensor:
    return torch.randint(0, 4, shape, generator=torch.Generator().manual_seed(0))


ROWS = numbers(3, 5)


@pytest.mark.parametrize(
    ("options", "inputs"),
    [
        ({}, (numbers(3, 5),)),
        ({}, (numbers(8), OFFSETS)),
        ({"include_last_offset": True}, (numbers(5).int(), OFFSETS.int())),
        ({}, (numbers(0), torch.zeros(2, dtype=torch.int64))),
    ],
    ids=["rows", "offsets", "offsets to the end", "no rows"],
)
def test_bags(options: dict[str, Any], inputs: tuple[torch.Tensor, ...], tmp_path: Path) -> None:
    model = Bags(**options).eval()
    assert_agrees(session_of(model, tmp_path, inputs), model, inputs)


def test_any_number_of_bags(tmp_path: Path) -> None:
    model = Bags().eval()
    shapes = {"indices": {0: Dim.AUTO}}
    session = session_of(model, tmp_path, (numbers(3, 5),), dynamic_shapes=shapes)
    for count in (3, 7):
        assert_agrees(session, model, (numbers(count, 5),), str(count))


def test_weighted_rows(tmp_path: Path) -> None:
    class Weighted(torch.nn.Module):
        def forward(self, table: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
            return functional.embedding_bag(ROWS, table, mode="sum", per_sample_weights=weights)

    inputs = torch.randn(10, 4), torch.randn(3, 5)
    model = Weighted().eval()
    assert_agrees(session_of(model, tmp_path, inputs), model, inputs)


class Renormalized(torch.nn.Module):
    """Tables whose rows look-ups bring to a norm of at most one, for ever."""

    def __init__(self, norm: float) -> None:
        super().__init__()
        self.rows = torch.nn.Embedding(10, 4, max_norm=1.0, norm_type=norm)
        self.bags = torch.nn.EmbeddingBag(10, 4, max_norm=1.0, norm_type=norm)
        for number, table in enumerate((self.rows, self.bags)):
            with torch.no_grad():
                generator = torch.Generator().manual_seed(number)
                table.weight.copy_(torch.randn(10, 4, generator=generator) * torch.arange(10.0)[:, None] / 5)

    def forward(self, indices: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.rows(indices), self.bags(indices)


@pytest.mark.parametrize("norm", [2.0, 1.0])
def test_rows_of_a_largest_norm(norm: float, tmp_path: Path) -> None:
    model, indices = Renormalized(norm).eval(), torch.arange(10).reshape(5, 2)
    session = session_of(model, tmp_path, (indices,))
    assert_agrees(session, model, (indices.flip(0),))
    assert_agrees(session, model, (indices,))


class Counting(torch.nn.Module):
    """Writes to a table otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.ones(3, 2))

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        self.table += 1
        return functional.embedding(indices, self.table)


def test_other_writes_to_a_table_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"^torch program: it writes to the buffer 'table' as it runs"):
        session_of(Counting().eval(), tmp_path, (torch.tensor([1, 2]),))
