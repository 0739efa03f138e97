"""What images of unknown size are taken for, where a choice depends on their size."""

from dataclasses import replace
from typing import Any

from tvm import sym, tirx

from relay_layout.ir import Extent
from topi_ext.ir import substitute
from topi_ext.workload import PLANES, ConvolutionWorkload, in_depth

SIGNAL, IMAGE, VOLUME = 16000, 224, 64
"""What each size that is not known is taken for: a second of speech, an image, a patch of a scan.

They tell the small results of a network's end from the large ones of its beginning: speech is made 320 times
shorter, images and volumes 32 and 16 times smaller.
"""


def of_usual_size(workload: ConvolutionWorkload) -> ConvolutionWorkload:
    """A convolution of data whose size is not known as one of data of the usual size.

    No smaller than its window.
    """
    size = VOLUME if workload.depth else IMAGE if "H" in workload.data_layout else SIGNAL
    found = replace(
        workload,
        in_height=_at_least_a_window(workload, 0, size),
        in_width=_at_least_a_window(workload, 1, size),
    )
    if not workload.depth:
        return found
    return in_depth(found, (_at_least_a_window(workload, PLANES, size), *workload.depth[1:]))


def _at_least_a_window(workload: ConvolutionWorkload, side: int, size: int) -> Any:
    extent, taps, _, before, after, dilation = workload.along(side)
    return max(_usual_extent(extent, size), dilation * (taps - 1) + 1 - before - after, 1)


def _usual_extent(extent: Extent, size: int) -> int:
    """``extent``, in which every variable is ``size``."""
    if isinstance(extent, int):
        return extent
    common = {one: tirx.const(size, "int64") for one in tirx.analysis.undefined_vars(extent)}
    found = sym.Analyzer().simplify(substitute(extent, common))
    return int(found) if isinstance(found, tirx.IntImm) else size


__all__ = ["of_usual_size"]
