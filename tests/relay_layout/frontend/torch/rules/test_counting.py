"""Operations that count, beside PyTorch's own kernels."""

import pytest

torch = pytest.importorskip("torch")

from relay_layout.frontend.torch.rules.counting import RULES  # noqa: E402

aten = torch.ops.aten


@pytest.mark.parametrize("given", [(8, -1.0, 1.0), (4, 0.0, 0.0), (5, 0.0, 3.0), (3, 2.0, 2.0)], ids=str)
@pytest.mark.parametrize("values", [torch.linspace(-2, 3, 11), torch.ones(4)], ids=["some", "equal"])
def test_histogram(values: torch.Tensor, given: tuple[int, float, float]) -> None:
    found = RULES[aten.histc.default](values, *given)
    torch.testing.assert_close(found, torch.histc(values, *given))


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_mode(dim: int, keepdim: bool) -> None:
    values = torch.randint(0, 3, (5, 7), generator=torch.Generator().manual_seed(0))
    found, place = RULES[aten.mode.default](values, dim, keepdim)
    wanted = torch.mode(values, dim, keepdim)[0]
    assert torch.equal(found, wanted)
    places = place if keepdim else place.unsqueeze(dim)
    assert torch.equal(values.gather(dim, places), wanted if keepdim else wanted.unsqueeze(dim))
