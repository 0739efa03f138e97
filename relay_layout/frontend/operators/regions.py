"""Regions of images, as PyTorch and ONNX read them."""

from typing import Any

from tvm import relax

from relay_layout.ir import dtype_of


def averaged_regions(
    builder: Any, image: Any, regions: Any, size: tuple[int, int], scale: float, samples: int, *, moved: bool
) -> Any:
    """Regions of ``image`` (N, C, H, W) averaged to ``size``, (K, C, *size), as a Relax expression.

    ``regions`` (K, 5) are the number of an image and two corners, which are multiplied by ``scale`` and, if
    they are ``moved``, by half a pixel then. Each side of a bin has that many ``samples``, or one to a
    pixel where it is 0 or less.
    """
    if moved:
        # TVM's own operator knows only that regions may be smaller than a pixel then.
        half = relax.const([0.0, *[0.5 / scale] * 4], dtype_of(regions))
        regions = builder.emit(relax.op.subtract(regions, half))
    return relax.op.vision.roi_align(
        image, regions, size, scale, samples, aligned=moved, layout="NCHW", mode="avg"
    )
