"""A warning where a layout was asked for that no kernel takes."""

import json
import warnings
from collections.abc import Sequence

from relay_layout.errors import RelayLayoutWarning
from relay_layout.lower.schedule import Kernel

_WITH_KERNELS = ("conv1d", "conv2d", "conv3d")
"""Convolutions that have a kernel in some layout, whatever they compute."""


def warn_of_plain_loops(kernels: Sequence[Kernel], target: str) -> None:
    """Warn of convolutions that plain loops compute, where the choice of layouts was not ours."""
    slow = [one for one in kernels if one.source == "fallback" and one.operator in _WITH_KERNELS]
    if not slow:
        return
    layouts = sorted({str(json.loads(kernel.workload)["data_layout"]) for kernel in slow})
    warnings.warn(
        f"target {target} has no kernel for {len(slow)} of {len(kernels)} functions, convolutions in "
        f"{', '.join(layouts)}: plain loops, many times slower; 'auto' chooses layouts with kernels",
        RelayLayoutWarning,
        stacklevel=3,
    )
