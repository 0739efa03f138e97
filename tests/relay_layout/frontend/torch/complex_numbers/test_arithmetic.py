"""Complex numbers element by element, of their parts, beside PyTorch's."""

import pytest

torch = pytest.importorskip("torch")

from tests.relay_layout.frontend.torch.complex_numbers.programs import assert_keeps  # noqa: E402
from tests.relay_layout.frontend.torch.harness import Functions  # noqa: E402

ONE = torch.tensor([[1.5 + 0.5j, -2 + 1j, 0], [-0.25 - 2j, 3, 0.5 - 1j]])
OTHER = torch.tensor([-1 + 2j, 2 + 0.25j, 0.5 - 3j])
REAL = torch.tensor([2.0, -0.5, 3.0])
EXTREME = torch.tensor([1e25 - 2e25j, -3e-25 + 1e-25j])

TWO: Functions = {
    "sum": lambda x, y: x + y,
    "difference": lambda x, y: x - y,
    "of multiples": lambda x, y: torch.add(x, y, alpha=2) - torch.sub(y, x, alpha=1.5 - 1j),
    "product": lambda x, y: x * y,
    "quotient": lambda x, y: x / y,
    "equal": lambda x, y: (x == y) | (x * 1 == x),
    "unequal": lambda x, y: x != y,
}
NUMBERS: Functions = {
    "sums": lambda x: (x + 2) - (1j + x * 3) + (0.5 - x),
    "quotients": lambda x: x / 2 + x / (1 + 2j),
    "quotients of numbers": lambda x: 2 / (x + 5) + 1j / (x + 5),
    "beside reals": lambda x: (x + REAL) * REAL - REAL / (x + 5) + (REAL - x) / REAL,
    "reals made complex": lambda x: x.real * 1j + x.imag + 2j,
    "conjugate": lambda x: x.conj() * x,
    "negative": lambda x: -x,
    "root of the square": lambda x: torch.sqrt(x * x),
    "inverse root": lambda x: torch.rsqrt(x + 5),
    "powers": lambda x: x**2 - x**5 + x**0 + (x + 5) ** -3,
}
FUNCTIONS: Functions = {
    "magnitude": torch.abs,
    "angle": torch.angle,
    "root": torch.sqrt,
    "exponential": torch.exp,
    "logarithm": lambda x: torch.log(x + 5),
    "sine": torch.sin,
    "hyperbolic tangent": torch.tanh,
    "sigmoid": torch.sigmoid,
    "polar": lambda x: torch.polar(x.real.abs(), x.imag),
    "finite": lambda x: torch.isfinite(x) & ~torch.isnan(x) & ~torch.isinf(x),
    "norm along": lambda x: torch.linalg.vector_norm(x, 1, dim=1, keepdim=True),
}


def test_of_two_tensors() -> None:
    assert_keeps(TWO, ONE, OTHER)


def test_beside_numbers_and_reals() -> None:
    assert_keeps(NUMBERS, ONE)


def test_functions_of_one() -> None:
    assert_keeps(FUNCTIONS, ONE)


def test_squares_that_are_no_floats() -> None:
    """Where the square of a part is infinite or zero, magnitudes and quotients are not."""
    assert_keeps({"magnitude": torch.abs, "quotient": lambda x: 1e20 / x}, EXTREME)


def test_doubles_stay_doubles() -> None:
    assert_keeps({"sum": lambda x: x + OTHER, "product": lambda x: x * REAL}, ONE.to(torch.complex128))
