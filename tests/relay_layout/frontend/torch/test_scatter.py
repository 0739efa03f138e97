"""PyTorch's ``scatter_reduce`` beside PyTorch's numbers."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

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
