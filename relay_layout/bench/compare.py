"""How far one runtime's outputs are from another's."""

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

TOLERANCE = 1e-3
"""A peer whose relative error is above this computes something else."""

QUANTIZED_TOLERANCE = 2e-2
"""The same for a quantized network: about two steps of 8 bits, as every runtime rounds in its own way."""


ROUNDED_TOLERANCE = 3e-2
"""The same where products are of bfloat16, which has 8 bits of mantissa."""


def relative_error(outputs: Sequence[Array], reference: Sequence[Array]) -> float | None:
    """Largest over the outputs of max |output - reference| / max |reference|.

    None where they cannot be compared: another number or other shapes of outputs, or values that are
    not finite.
    """
    if len(outputs) != len(reference):
        return None
    worst = 0.0
    for output, expected in zip(outputs, reference, strict=True):
        if output.shape != expected.shape:
            return None
        if expected.size == 0:
            continue
        wide, wide_expected = output.astype(np.float64), expected.astype(np.float64)
        if not (np.isfinite(wide).all() and np.isfinite(wide_expected).all()):
            return None
        difference = float(np.abs(wide - wide_expected).max())
        scale = float(np.abs(wide_expected).max())
        if difference:
            worst = max(worst, difference / max(scale, float(np.finfo(np.float32).tiny)))
    return worst
