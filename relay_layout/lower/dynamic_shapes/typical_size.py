"""The typical size that stands in for a dynamic one where a choice needs a number."""

from dataclasses import replace
from typing import Any

from tvm import sym, tirx

from relay_layout.ir import Extent
from topi_ext.ir import substitute
from topi_ext.workload import COLUMNS, PLANES, ROWS, ConvolutionWorkload, volume_workload

TYPICAL_SIZE = 224
"""Pixels that a symbolic size of a network's input counts as; later extents, which are functions of it,
become as small as they are in that network."""


def typical_extent(extent: Extent) -> int:
    """``extent`` with :data:`TYPICAL_SIZE` in place of every symbolic variable."""
    if isinstance(extent, int):
        return extent
    common = {one: tirx.const(TYPICAL_SIZE, "int64") for one in tirx.analysis.undefined_vars(extent)}
    found = sym.Analyzer().simplify(substitute(extent, common))
    return int(found) if isinstance(found, tirx.IntImm) else TYPICAL_SIZE


def of_typical_size(workload: ConvolutionWorkload) -> ConvolutionWorkload:
    """The convolution with images of typical size in place of a dynamic one.

    No image is smaller than the window of the kernel.
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
    return max(typical_extent(axis.extent), window - axis.pad_before - axis.pad_after, 1)


__all__ = ["TYPICAL_SIZE", "of_typical_size", "typical_extent"]
