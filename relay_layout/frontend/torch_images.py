"""PyTorch's operations on images and volumes that TVM's importer lacks, or gets wrong."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from tvm import relax

from relay_layout.errors import ModelError
from relay_layout.ir import Expression, dtype_of, shape_of

WHOLE = (
    torch.ops.aten.instance_norm.default,
    torch.ops.aten.pad.default,
    torch.ops.aten.pixel_shuffle.default,
)
"""Operations that are not to be taken apart: into index arithmetic, or into reshapes that fix the layout."""

Converter = Callable[[Any, Any], Expression]

_METHODS = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")
"""By the numbers that ``grid_sampler`` has for them."""


def _grid_sample(rank: int) -> Converter:
    """Of PyTorch's grid the coordinates are the last dimension, of Relax's the second."""

    def convert(node: Any, importer: Any) -> Expression:
        data, grid = (importer.env[argument] for argument in node.args[:2])
        method, padding, corners = node.args[2:5]
        order = [0, rank + 1, *range(1, rank + 1)]
        first = importer.block_builder.emit(relax.op.permute_dims(grid, order))
        return importer.block_builder.emit(
            relax.op.image.grid_sample(
                data,
                first,
                method=_METHODS[method],
                layout="NCHW" if rank == 2 else "NCDHW",
                padding_mode=_PADDINGS[padding],
                align_corners=bool(corners),
            )
        )

    return convert


def _pad(node: Any, importer: Any) -> Expression:
    """``pad(data, widths, mode, value)``: widths of the last dimension first; negative ones cut."""
    value, emit = importer.env[node.args[0]], importer.block_builder.emit
    shape, given = shape_of(value), list(node.args[1])
    mode = node.args[2] if len(node.args) > 2 else node.kwargs.get("mode", "constant")
    fill = node.args[3] if len(node.args) > 3 else node.kwargs.get("value")
    if shape is None or not all(isinstance(width, int) for width in given):
        raise ModelError(f"node '{node.name}': padding by widths that are not known is not supported")
    before, after = [0] * len(shape), [0] * len(shape)
    for place in range(len(given) // 2):
        before[-1 - place], after[-1 - place] = given[2 * place : 2 * place + 2]
    axes = [axis for axis in range(len(shape)) if min(before[axis], after[axis]) < 0]
    if axes:
        begins = [-min(before[axis], 0) for axis in axes]
        ends = [shape[axis] + min(after[axis], 0) for axis in axes]
        value = emit(relax.op.strided_slice(value, axes, begins, ends, assume_inbound=True))
    widths = [max(width, 0) for pair in zip(before, after, strict=True) for width in pair]
    return emit(relax.op.nn.pad(value, widths, mode, fill or 0.0)) if any(widths) else value


def _instance_norm(node: Any, importer: Any) -> Expression:
    """Of the image's own mean and variance, or, where the module kept them in training, of those."""
    value, emit = importer.env[node.args[0]], importer.block_builder.emit
    shape = shape_of(value) or ()
    gamma, beta, mean, variance = (
        None if argument is None else importer.env[argument] for argument in node.args[1:5]
    )
    own, epsilon = node.args[5], float(node.args[7])
    fill = np.ones(int(shape[1]), dtype_of(value))
    gamma = relax.const(fill) if gamma is None else gamma
    beta = relax.const(0 * fill) if beta is None else beta
    if own:
        axes = list(range(2, len(shape)))
        return emit(relax.op.nn.instance_norm(value, gamma, beta, channel_axis=1, axes=axes, epsilon=epsilon))
    normalized = emit(relax.op.nn.batch_norm(value, gamma, beta, mean, variance, 1, epsilon, training=False))
    return emit(relax.TupleGetItem(normalized, 0))


CONVERTERS: dict[str, Converter] = {
    "grid_sampler_2d.default": _grid_sample(2),
    "grid_sampler_3d.default": _grid_sample(3),
    "instance_norm.default": _instance_norm,
    "pad.default": _pad,
}
"""By the names that TVM's importer has for operations, whose own converters they replace."""

__all__ = ["CONVERTERS", "WHOLE"]
