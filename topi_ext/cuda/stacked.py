"""Many choices at once: knobs whose fields are arrays, for models that estimate a whole space in one go.

Functions of knobs that a model calls compute with numbers and with arrays alike, element by element.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import reduce
from typing import Any, TypeVar

import numpy as np

from topi_ext.cuda.kernel_knobs import KernelKnobs

Count = Any
"""A whole number, or an array of them where knobs are stacked."""

Amount = Any
"""A number that need not be whole, or an array of them."""

_Knobs = TypeVar("_Knobs", bound=KernelKnobs)


def stacked(choices: Sequence[_Knobs]) -> _Knobs:
    """One of the kind of ``choices``, each number an array with an element for each of them, and so names
    that differ.
    """
    kind = type(choices[0])
    columns: dict[str, Any] = {}
    for field in fields(kind):  # type: ignore[arg-type]
        values = [getattr(choice, field.name) for choice in choices]
        is_shared = isinstance(values[0], str) and len(set(values)) == 1
        columns[field.name] = values[0] if is_shared else np.array(values)
    return kind(**columns)


def least(*amounts: Amount) -> Amount:
    """The smallest, element by element."""
    return reduce(np.minimum, amounts)


def greatest(*amounts: Amount) -> Amount:
    """The largest, element by element."""
    return reduce(np.maximum, amounts)


def rounded_up(amount: Amount) -> Count:
    """The next whole number."""
    return np.ceil(amount).astype(int)


def first_fitting(choices: Sequence[_Knobs], keys: np.ndarray, fits: Callable[[_Knobs], bool]) -> int | None:
    """The place of the first of ``choices`` that fits, in the order of ``keys``, the first of which counts
    most; of equal ones that which comes first.
    """
    return next((int(place) for place in np.lexsort(keys[::-1]) if fits(choices[place])), None)
