"""Bessel functions and tails of the normal distribution, beside PyTorch's own kernels in double precision."""

import pytest

torch = pytest.importorskip("torch")

from relay_layout.frontend.torch.rules.special import RULES  # noqa: E402

aten = torch.ops.aten
INFINITY = float("inf")
NUMBERS = torch.tensor([*torch.linspace(-90, 90, 901).tolist(), 14.999, 15.001, -1e-20, 0.0, 300.0, 3e38])


@pytest.mark.parametrize("operation", [operation for operation in RULES if "ndtri" not in str(operation)])
def test_function(operation: object) -> None:
    numbers = NUMBERS.clamp(min=-4) if "erfcx" in str(operation) else NUMBERS
    due = operation(numbers.to(torch.float64)).to(torch.float32)
    torch.testing.assert_close(RULES[operation](numbers), due, rtol=2e-6, atol=0.0, equal_nan=True)


@pytest.mark.parametrize(
    ("name", "below", "above"), [("i0", INFINITY, INFINITY), ("special_i1", -INFINITY, INFINITY)]
)
def test_bessel_functions_of_infinity(name: str, below: float, above: float) -> None:
    """PyTorch's kernels give no number."""
    found = RULES[getattr(aten, name).default](torch.tensor([-INFINITY, INFINITY]))
    assert found.tolist() == [below, above]


def test_bessel_functions_of_integers() -> None:
    counted = torch.arange(-3, 30)
    torch.testing.assert_close(RULES[aten.i0.default](counted), torch.i0(counted), rtol=2e-6, atol=0.0)


def test_normal_quantile() -> None:
    probabilities = torch.tensor(
        [*torch.linspace(0.001, 0.999, 500).tolist(), 0.0, 1.0, -0.1, 1.5, 1e-38, 1e-20, 1e-8, 1 - 2**-24]
    )
    due = torch.special.ndtri(probabilities.to(torch.float64)).to(torch.float32)
    found = RULES[aten.special_ndtri.default](probabilities)
    torch.testing.assert_close(found, due, rtol=2e-6, atol=1e-7, equal_nan=True)
