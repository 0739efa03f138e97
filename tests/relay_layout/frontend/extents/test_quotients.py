"""Extents that floats make of others are the quotients that the floats round to."""

from typing import Any

import numpy as np
import pytest
from tvm import tirx

from relay_layout.frontend.extents.quotients import quotient


def scaled(factor: float, dtype: Any) -> str:
    found = quotient(tirx.Var("h", "int64"), lambda sizes: np.floor(sizes.astype(dtype) * dtype(factor)))
    return str(found).replace("T.int64", "")


@pytest.mark.parametrize(
    ("factor", "dtype", "fraction"),
    [
        (3, np.float32, "h * (3)"),
        (1.5, np.float32, "h * (3) // (2)"),
        (0.7, np.float32, "h * (7) // (10)"),
        (0.123, np.float32, "h * (123) // (1000)"),
        (1 / 3, np.float32, "h // (3)"),
        (0.6, np.float64, "h * (3) // (5)"),
        (0.1234, np.float64, "h * (617) // (5000)"),
    ],
)
def test_factors_are_the_simplest_fractions(factor: float, dtype: Any, fraction: str) -> None:
    """0.6 is below three fifths, and 5 times it, rounded, is 3."""
    assert scaled(factor, dtype) == fraction


@pytest.mark.parametrize(("factor", "dtype"), [(2.6, np.float32), (0.7, np.float64)])
def test_some_factors_round_some_sizes_up_and_others_down(factor: float, dtype: Any) -> None:
    with pytest.raises(ValueError):
        scaled(factor, dtype)
