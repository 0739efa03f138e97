"""Functions near zero, where every digit counts, beside the same in double precision."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from relay_layout.frontend.torch.rules.precise import RULES  # noqa: E402
from tests.relay_layout.frontend.torch.harness import Every, Functions, session_of  # noqa: E402

aten = torch.ops.aten
SIZES = [0.0, 1e-30, 3.7e-8, 1e-6, 8e-4, 0.01, 0.2, 0.2499, 0.25, 0.3, 0.9, 0.9999, 1.0, 7.0, 90.0, 1e38]
NUMBERS = torch.tensor([*SIZES, *(-one for one in SIZES), float("inf"), -float("inf"), float("nan")])
FUNCTIONS: Functions = {"atanh": torch.atanh, "expm1": torch.expm1, "log1p": torch.log1p}


def test_digits_are_left_when_compiled(tmp_path: Path) -> None:
    model = Every(FUNCTIONS).eval()
    session = session_of(model, tmp_path, (NUMBERS,))
    found = session.run({session.inputs[0].name: NUMBERS}).values()
    for name, output, expected in zip(FUNCTIONS, found, model(NUMBERS.double()), strict=True):
        np.testing.assert_allclose(output, expected.float().numpy(), rtol=1e-6, err_msg=name)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_digits_of_doubles(name: str) -> None:
    rule: Callable[..., torch.Tensor] = RULES[getattr(aten, name).default]
    numbers = NUMBERS.double()
    torch.testing.assert_close(rule(numbers), FUNCTIONS[name](numbers), rtol=1e-14, atol=0, equal_nan=True)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_types_of_results(name: str) -> None:
    rule: Callable[..., torch.Tensor] = RULES[getattr(aten, name).default]
    for numbers in (torch.tensor([-1, 0, 1]), torch.tensor([-0.5, 0.001, 0.9]).half(), NUMBERS > 0):
        torch.testing.assert_close(rule(numbers), FUNCTIONS[name](numbers), equal_nan=True)
