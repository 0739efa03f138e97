"""What images of unknown size are taken for, where a choice depends on their size."""

from dataclasses import replace
from typing import Any

from tvm import sym, tirx

from relay_layout.ir import Extent
from topi_ext.ir import substitute
from topi_ext.workload import COLUMNS, PLANES, ROWS, ConvolutionWorkload, volume_workload

USUAL = 224
"""What a size that is not known is taken for: it tells the small images of a network's end from the large
ones of its beginning."""


def usual_extent(extent: Extent) -> int:
    """``extent``, in which every variable is of the usual size."""
    if isinstance(extent, int):
        return extent
    common = {one: tirx.const(USUAL, "int64") for one in tirx.analysis.undefined_vars(extent)}
    found = sym.Analyzer().simplify(substitute(extent, common))
    return int(found) if isinstance(found, tirx.IntImm) else USUAL


def of_usual_size(workload: ConvolutionWorkload) -> ConvolutionWorkload:
    """A convolution of images whose size is not known as one of images of the usual size.

    No smaller than its window.
    """
    found = replace(
        workload,
        in_height=_at_least_a_window(workload, ROWS),
        in_width=_at_least_a_window(workload, COLUMNS),
    )
    if not workload.depth:
        return found
    depth = workload.along(PLANES)._replace(extent=_at_least_a_window(workload, PLANES))
    return volume_workload(found, depth)


def _at_least_a_window(workload: ConvolutionWorkload, side: int) -> Any:
    axis = workload.along(side)
    window = axis.dilation * (axis.taps - 1) + 1
    return max(usual_extent(axis.extent), window - axis.pad_before - axis.pad_after, 1)


__all__ = ["USUAL", "of_usual_size", "usual_extent"]
