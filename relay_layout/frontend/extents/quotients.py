"""Open extents that floating point makes of others, as quotients of integers."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from relay_layout.ir import Extent

_MOST = 1 << 14
"""Up to which extent a quotient is checked to be what floating point gives."""

Array = NDArray[Any]


def quotient(extent: Extent, counted: Callable[[Array], Array]) -> Extent:
    """What ``counted`` gives of the numbers that ``extent`` may be, as ``extent * times // parts``.

    ``counted`` takes an array of the integers from 1 up, and gives as many integers, of any element type:
    those in proportion to the first, rounded down. ValueError where no fraction gives all of them.
    """
    sizes: Array = np.arange(1, _MOST)
    wanted = counted(sizes).astype("int64")
    # Each size allows for the factors from wanted / size up to, and without, (wanted + 1) / size.
    first, last = int((wanted / sizes).argmax()), int(((wanted + 1) / sizes).argmin())
    times = -(-wanted[first] * sizes // sizes[first])
    fitting = np.flatnonzero(times * sizes[last] < (wanted[last] + 1) * sizes)
    for place in fitting[:1].tolist():
        factor, parts = int(times[place]), int(sizes[place])
        if np.array_equal(sizes * factor // parts, wanted):
            return extent * factor // parts
    raise ValueError
