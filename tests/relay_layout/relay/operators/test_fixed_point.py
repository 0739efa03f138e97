"""Multipliers of fixed point arithmetic."""

import math

import numpy as np
import pytest
from quantized_reference import scale_exactly

from relay_layout.errors import ModelError
from relay_layout.relay.operators.fixed_point import multiplier_and_shift


@pytest.mark.parametrize("ratio", [1.0, 0.5, 0.75, 1 / 3, 2.0**-31, 3e-9, 2.0**30, 1 - 2.0**-40, -0.3])
def test_a_multiplier_has_31_bits_of_the_ratio(ratio: float) -> None:
    multiplier, shift = multiplier_and_shift(ratio)
    assert math.isclose(multiplier * 2.0 ** (shift - 31), ratio, rel_tol=2.0**-31)
    assert 2**30 <= abs(multiplier) < 2**31


def test_a_ratio_too_small_to_matter_is_zero() -> None:
    assert multiplier_and_shift(2.0**-33) == (0, 0)
    assert scale_exactly(2**31 - 1, np.float32(2.0**-33), np.float32(1)) == 0


@pytest.mark.parametrize(
    ("ratio", "message"),
    [(2.0**31, r"the quotient of two scales is 2.14748e\+09, over 2147483648"), (math.nan, "is nan")],
)
def test_a_ratio_that_has_no_multiplier_is_refused(ratio: float, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        multiplier_and_shift(ratio)
