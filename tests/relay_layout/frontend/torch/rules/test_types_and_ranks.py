"""Operations on types and ranks that converters do not take, beside PyTorch's own kernels."""

import pytest

torch = pytest.importorskip("torch")

from relay_layout.frontend.torch.rules.types_and_ranks import RULES  # noqa: E402

aten = torch.ops.aten


def test_what_caches_begin_with() -> None:
    """A tensor without elements may be joined to those of any rank, and still takes part in the type."""
    rule = RULES[aten.cat.default]
    tensors = [torch.tensor([]), torch.ones(2, 3, dtype=torch.int64), torch.ones(2, 1, dtype=torch.int64)]
    found = rule(tensors, -1)
    assert torch.equal(found, torch.cat(tensors, -1)) and found.dtype == torch.float32
    assert rule(tensors[1:], -1) is NotImplemented
