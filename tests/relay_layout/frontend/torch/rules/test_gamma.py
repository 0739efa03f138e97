"""Gamma functions and the inverse of the error function, beside PyTorch's own kernels."""

import pytest

torch = pytest.importorskip("torch")

from relay_layout.frontend.torch.rules.gamma import RULES  # noqa: E402

aten = torch.ops.aten
INFINITY = float("inf")
NUMBERS = torch.tensor(
    [*torch.linspace(-40.3, 40, 700).tolist(), 0.0, -0.0, -3.0, 1.0, 2.0, 1e-20, 1e5, 3e30, INFINITY]
)


@pytest.mark.parametrize("name", ["lgamma", "digamma"])
def test_gamma(name: str) -> None:
    operation = getattr(aten, name).default
    torch.testing.assert_close(
        RULES[operation](NUMBERS), operation(NUMBERS), rtol=2e-5, atol=1e-5, equal_nan=True
    )
    counted = torch.arange(1, 9)
    torch.testing.assert_close(RULES[operation](counted), operation(counted))


def test_inverse_of_erf() -> None:
    near = [1.0, -1.0, 0.0, 1e-20, 1 - 2**-24, -1 + 2**-23, 1.5]
    values = torch.tensor([*torch.linspace(-0.999, 0.999, 300).tolist(), *near])
    torch.testing.assert_close(RULES[aten.erfinv.default](values), torch.erfinv(values), equal_nan=True)
