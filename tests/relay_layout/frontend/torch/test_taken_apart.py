"""Rules of single operations, as PyTorch computes them itself beside PyTorch's own kernels."""

import pytest

torch = pytest.importorskip("torch")

from relay_layout.frontend.torch.operators import (  # noqa: E402
    counting_rules,
    expert_rules,
    gamma_rules,
    rules,
)

aten = torch.ops.aten
INFINITY = float("inf")
NUMBERS = torch.tensor(
    [*torch.linspace(-40.3, 40, 700).tolist(), 0.0, -0.0, -3.0, 1.0, 2.0, 1e-20, 1e5, 3e30, INFINITY]
)


@pytest.mark.parametrize("name", ["lgamma", "digamma"])
def test_gamma(name: str) -> None:
    operation = getattr(aten, name).default
    torch.testing.assert_close(
        gamma_rules.RULES[operation](NUMBERS), operation(NUMBERS), rtol=2e-5, atol=1e-5, equal_nan=True
    )
    counted = torch.arange(1, 9)
    torch.testing.assert_close(gamma_rules.RULES[operation](counted), operation(counted))


def test_inverse_of_erf() -> None:
    near = [1.0, -1.0, 0.0, 1e-20, 1 - 2**-24, -1 + 2**-23, 1.5]
    values = torch.tensor([*torch.linspace(-0.999, 0.999, 300).tolist(), *near])
    torch.testing.assert_close(
        gamma_rules.RULES[aten.erfinv.default](values), torch.erfinv(values), equal_nan=True
    )


@pytest.mark.parametrize("given", [(8, -1.0, 1.0), (4, 0.0, 0.0), (5, 0.0, 3.0), (3, 2.0, 2.0)], ids=str)
@pytest.mark.parametrize("values", [torch.linspace(-2, 3, 11), torch.ones(4)], ids=["some", "equal"])
def test_histogram(values: torch.Tensor, given: tuple[int, float, float]) -> None:
    found = counting_rules.RULES[aten.histc.default](values, *given)
    torch.testing.assert_close(found, torch.histc(values, *given))


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_mode(dim: int, keepdim: bool) -> None:
    values = torch.randint(0, 3, (5, 7), generator=torch.Generator().manual_seed(0))
    found, place = counting_rules.RULES[aten.mode.default](values, dim, keepdim)
    wanted = torch.mode(values, dim, keepdim)[0]
    assert torch.equal(found, wanted)
    places = place if keepdim else place.unsqueeze(dim)
    assert torch.equal(values.gather(dim, places), wanted if keepdim else wanted.unsqueeze(dim))


@pytest.mark.parametrize("rows", [3, 12], ids=["few rows", "more rows than groups"])
def test_experts(rows: int) -> None:
    """One group is empty, and the last row is in none of them."""
    generator = torch.Generator().manual_seed(0)
    data = torch.randn(rows, 5, generator=generator)
    matrices = torch.randn(4, 5, 6, generator=generator)
    ends = torch.tensor([1, 1, rows - 2, rows - 1], dtype=torch.int32)
    (rule,) = set(expert_rules.rules().values())
    wanted, start = torch.zeros(rows, 6), 0
    for matrix, end in zip(matrices, ends.tolist(), strict=True):
        wanted[start:end] = data[start:end] @ matrix
        start = max(start, end)
    torch.testing.assert_close(rule(data, matrices, ends), wanted)


def test_what_caches_begin_with() -> None:
    """A tensor without elements may be joined to those of any rank, and still takes part in the type."""
    rule = rules.RULES[aten.cat.default]
    tensors = [torch.tensor([]), torch.ones(2, 3, dtype=torch.int64), torch.ones(2, 1, dtype=torch.int64)]
    found = rule(tensors, -1)
    assert torch.equal(found, torch.cat(tensors, -1)) and found.dtype == torch.float32
    assert rule(tensors[1:], -1) is NotImplemented
