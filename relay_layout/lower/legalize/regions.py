"""Averaged regions of images (``roi_align``): channels innermost, so that vectors read the pixels of a place.

TVM's compute works out each place, and the four pixels around it, for every channel again.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

from tvm import relax, te, topi

from relay_layout.ir import Expression, dtype_of, ints, is_static, shape_of
from relay_layout.lower.fusion.patterns import OPAQUE, PATTERN
from relay_layout.lower.legalize.default import default_call
from topi_ext.compute.regions import Bins, averaged_regions

_NEIGHBOURS = 4
"""Pixels that a place between them reads."""


def roi_align_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """A call of ``vision.roi_align``: channels innermost where that is faster, otherwise TVM's compute."""
    data, regions = call.args
    shape, attributes = shape_of(data), call.attrs
    channels_last = str(attributes.layout) == "NHWC"
    rows, columns = ints(attributes.pooled_size)
    bins = Bins(
        (rows, columns),
        float(attributes.spatial_scale),
        int(attributes.sample_ratio),
        bool(attributes.aligned),
    )
    if (
        shape is None
        or not isinstance(shape[3 if channels_last else 1], int)
        or str(attributes.mode) != "avg"
        or any(dtype_of(tensor) != "float32" for tensor in (data, regions))
        or not (channels_last or _reads_most(shape, shape_of(regions), bins))
    ):
        return default_call(builder, call)
    pixels = data
    if not channels_last:
        pixels = builder.emit_te(topi.transpose, data, (0, 2, 3, 1), primfunc_name_hint="roi_align_pixels")

    def averaged(pixels: te.Tensor, regions: te.Tensor) -> te.Tensor:
        return averaged_regions(pixels, regions, bins, channels_last=channels_last)

    return builder.call_te(
        averaged, pixels, regions, primfunc_name_hint="roi_align", primfunc_attrs={PATTERN: OPAQUE}
    )


def _reads_most(shape: Sequence[Any], regions: Sequence[Any] | None, bins: Bins) -> bool:
    """Whether so many pixels are read that it is worth the transpose of all: as far as extents are known."""
    if regions is None or not is_static((*shape, *regions)):
        return True
    images, _, height, width = map(int, shape)
    places = int(regions[0]) * prod(bins.size) * max(bins.samples, 1) ** 2
    return places * _NEIGHBOURS >= images * height * width
