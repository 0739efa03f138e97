"""Products of groups of rows, each with a matrix, beside products of each group."""

import pytest

torch = pytest.importorskip("torch")

from relay_layout.frontend.torch.rules.experts import rules  # noqa: E402


@pytest.mark.parametrize("rows", [3, 12], ids=["few rows", "more rows than groups"])
def test_experts(rows: int) -> None:
    """One group is empty, and the last row is in none of them."""
    generator = torch.Generator().manual_seed(0)
    data = torch.randn(rows, 5, generator=generator)
    matrices = torch.randn(4, 5, 6, generator=generator)
    ends = torch.tensor([1, 1, rows - 2, rows - 1], dtype=torch.int32)
    (rule,) = set(rules().values())
    wanted, start = torch.zeros(rows, 6), 0
    for matrix, end in zip(matrices, ends.tolist(), strict=True):
        wanted[start:end] = data[start:end] @ matrix
        start = max(start, end)
    torch.testing.assert_close(rule(data, matrices, ends), wanted)
