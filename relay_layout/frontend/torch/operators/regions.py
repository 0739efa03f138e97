"""torchvision's operations on boxes and regions, which are there once it is imported."""

import math
from functools import partial
from typing import Any

import numpy as np
from tvm import relax

from relay_layout.errors import ModelError
from relay_layout.frontend.operators.regions import averaged_regions
from relay_layout.frontend.torch.node import Converter, is_read
from relay_layout.frontend.torch.operators.counted import counts_of
from relay_layout.ir import Expression, dtype_of
from topi_ext.compute.boxes import suppress_every_class


def _suppressed(node: Any, importer: Any) -> Expression:
    """``nms(boxes, scores, threshold)``: indices of boxes by falling score, int64, as many as there are."""
    boxes, scores = (importer.env[argument] for argument in node.args[:2])
    emit, dtype = importer.block_builder.emit, dtype_of(boxes)
    # Boxes that a network masks have this score, and are the last to be chosen.
    least = relax.const(np.finfo(dtype_of(scores)).min, dtype_of(scores))
    finite = emit(relax.op.maximum(scores, least))
    found = importer.block_builder.emit_te(
        partial(suppress_every_class, sides=list),
        emit(relax.op.expand_dims(boxes, 0)),
        emit(relax.op.expand_dims(finite, [0, 1])),
        relax.const(np.iinfo("int64").max, "int64"),
        relax.const(_not_above(node.args[2], dtype), dtype),
        relax.const(-np.inf, dtype_of(scores)),
        primfunc_name_hint="non_max_suppression",
    )
    count = emit(relax.TupleGetItem(found, 1))
    number = counts_of(importer).count(count, boxes.ty.shape[0], f"{node.name}_number")
    rows = emit(relax.TupleGetItem(found, 0))
    chosen = emit(relax.op.strided_slice(rows, [0, 1], [0, 2], [number, 3], assume_inbound=True))
    return emit(relax.op.squeeze(chosen, [1]))


def _not_above(threshold: float, dtype: str) -> Any:
    """The greatest number of ``dtype`` not above: what is above one is above the other."""
    near = np.dtype(dtype).type(threshold)
    return near if float(near) <= threshold else np.nextafter(near, near.dtype.type(-math.inf))


def _aligned(node: Any, importer: Any) -> Expression:
    """``roi_align(image, regions, scale, rows, columns, samples, aligned)``."""
    image, regions = (importer.env[argument] for argument in node.args[:2])
    scale, rows, columns, samples, aligned = node.args[2:7]
    builder = importer.block_builder
    return builder.emit(
        averaged_regions(builder, image, regions, (rows, columns), scale, samples, moved=aligned)
    )


def _greatest(node: Any, importer: Any) -> Expression:
    """``roi_pool(image, regions, scale, rows, columns)``, without where the greatest elements are."""
    if is_read(node, 1):
        raise ModelError(f"node '{node.name}': where the greatest elements of regions are is not supported")
    image, regions = (importer.env[argument] for argument in node.args[:2])
    scale, rows, columns = node.args[2:5]
    emit = importer.block_builder.emit
    return emit(relax.Tuple([emit(relax.op.vision.roi_pool(image, regions, (rows, columns), scale))]))


CONVERTERS: dict[str, Converter] = {
    "nms.default": _suppressed,
    "roi_align.default": _aligned,
    "roi_pool.default": _greatest,
}
"""By the names that TVM's importer has for operations."""
