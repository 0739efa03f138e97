"""The typical size that stands in for a dynamic one where a choice needs a number."""

from dataclasses import replace
from typing import Any

import tvm
from tvm import tirx

from relay_layout.ir import Extent
from topi_ext.extents import simplified
from topi_ext.ir import substitute
from topi_ext.workloads.convolution import COLUMNS, PLANES, ROWS, ConvolutionWorkload, volume_workload

SIGNAL, IMAGE, VOLUME = 16000, 224, 64
"""What a symbolic size of a network's input counts as: a second of speech, an image, a patch of a scan.

Later extents, which are functions of it, become as small as they are in that network: speech 320 times,
images and volumes 32 and 16 times smaller.
"""


def of_typical_size(workload: ConvolutionWorkload) -> ConvolutionWorkload:
    """The convolution with data of typical size in place of dynamic ones.

    No extent is smaller than the window of the kernel.
    """
    size = VOLUME if workload.depth else IMAGE if "H" in workload.data_layout else SIGNAL
    found = replace(
        workload,
        in_height=_at_least_a_window(workload, ROWS, size),
        in_width=_at_least_a_window(workload, COLUMNS, size),
    )
    if not workload.depth:
        return found
    depth = workload.along(PLANES)._replace(extent=_at_least_a_window(workload, PLANES, size))
    return volume_workload(found, depth)


def _at_least_a_window(workload: ConvolutionWorkload, side: int, size: int) -> Any:
    axis = workload.along(side)
    return max(typical_extent(axis.extent, size), axis.window - axis.pad_before - axis.pad_after, 1)


def typical_extent(extent: Extent, size: int) -> int:
    """``extent`` with ``size`` in place of every symbolic variable; ``size`` where that divides by zero."""
    if isinstance(extent, int):
        return extent
    common = {one: tirx.const(size, "int64") for one in tirx.analysis.undefined_vars(extent)}
    try:
        found = simplified(substitute(extent, common))
    except tvm.error.InternalError:
        return size
    return found if isinstance(found, int) else size
