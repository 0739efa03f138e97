"""Blocks of images as batches of their own, as TensorFlow writes dilated convolutions.

TVM's converter calls packed functions for them that no program holds.
"""

import math
from collections.abc import Sequence
from typing import Any

from tvm import relax

from relay_layout.ir import Emit, shape_of


def space_to_batch(emit: Emit, data: Any, block: Sequence[int], pads: Sequence[Sequence[int]]) -> Any:
    """From padded [N, spatial, ...] a batch for each place within blocks, those of the first place first."""
    rank, count = len(shape_of(data) or ()), len(block)
    if any(map(any, pads)):
        widths = [0, 0, *(int(width) for pair in pads for width in pair), *([0, 0] * (rank - count - 1))]
        data = emit(relax.op.nn.pad(data, widths))
    batch, *extents = (int(extent) for extent in shape_of(data) or ())
    spatial, rest = extents[:count], extents[count:]
    split = [part for extent, size in zip(spatial, block, strict=True) for part in (extent // size, size)]
    apart = emit(relax.op.reshape(data, [batch, *split, *rest]))
    places = range(count)
    order = [*(2 + 2 * at for at in places), 0, *(1 + 2 * at for at in places)]
    order += range(1 + 2 * count, 1 + 2 * count + len(rest))
    moved = emit(relax.op.permute_dims(apart, order))
    fewer = [extent // size for extent, size in zip(spatial, block, strict=True)]
    return relax.op.reshape(moved, [batch * math.prod(block), *fewer, *rest])


def batch_to_space(emit: Emit, data: Any, block: Sequence[int], crops: Sequence[Sequence[int]]) -> Any:
    """What :func:`space_to_batch` was of, without what ``crops`` say."""
    batch, *extents = (int(extent) for extent in shape_of(data) or ())
    count, images = len(block), batch // math.prod(block)
    spatial, rest = extents[:count], extents[count:]
    apart = emit(relax.op.reshape(data, [*block, images, *extents]))
    order = [count]
    for at in range(count):
        order += [count + 1 + at, at]
    order += range(1 + 2 * count, 1 + 2 * count + len(rest))
    woven = emit(relax.op.permute_dims(apart, order))
    more = [extent * size for extent, size in zip(spatial, block, strict=True)]
    whole = relax.op.reshape(woven, [images, *more, *rest])
    if not any(map(any, crops)):
        return whole
    begin = [int(pair[0]) for pair in crops]
    end = [extent - int(pair[1]) for extent, pair in zip(more, crops, strict=True)]
    return relax.op.strided_slice(emit(whole), list(range(1, count + 1)), begin, end)
