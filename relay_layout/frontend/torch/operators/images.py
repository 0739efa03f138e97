"""PyTorch's operations on images and volumes that TVM's importer lacks, or gets wrong."""

from typing import Any

from tvm import relax

from relay_layout.errors import ModelError
from relay_layout.frontend.torch.node import Converter, argument
from relay_layout.frontend.torch.operators.open_extents import padded
from relay_layout.ir import Expression, dtype_of, is_static, shape_of

_METHODS = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")
"""By the numbers that ``grid_sampler`` has for them."""


def _grid_sample(rank: int) -> Converter:
    """The coordinates are the last dimension of PyTorch's grid, and the second of Relax's."""

    def convert(node: Any, importer: Any) -> Expression:
        data, grid = (importer.env[given] for given in node.args[:2])
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
    mode, fill = argument(node, 2, "mode", "constant"), argument(node, 3, "value")
    if shape is not None and not is_static(given):
        return padded(node, importer, value, given, mode, fill or 0.0)
    if shape is None:
        raise ModelError(f"node '{node.name}': padding a tensor of unknown shape is not supported")
    before, after = [0] * len(shape), [0] * len(shape)
    for place in range(len(given) // 2):
        before[-1 - place], after[-1 - place] = given[2 * place : 2 * place + 2]
    for axis in range(len(shape)):
        if mode == "replicate" and isinstance(shape[axis], int):
            _keep_one(shape[axis], before, after, axis)
    axes = [axis for axis in range(len(shape)) if min(before[axis], after[axis]) < 0]
    if axes:
        begins = [-min(before[axis], 0) for axis in axes]
        ends = [shape[axis] + min(after[axis], 0) for axis in axes]
        value = emit(relax.op.strided_slice(value, axes, begins, ends, assume_inbound=True))
    widths = [max(width, 0) for pair in zip(before, after, strict=True) for width in pair]
    if dtype_of(value) == "bool":
        fill = float(bool(fill))
    return emit(relax.op.nn.pad(value, widths, mode, fill or 0.0)) if any(widths) else value


def _keep_one(extent: int, before: list[int], after: list[int], axis: int) -> None:
    """Change widths that cut all of an axis, so that the element at the edge is left to be repeated."""
    padded = extent + before[axis] + after[axis]
    if before[axis] <= -extent:
        before[axis], after[axis] = 1 - extent, padded - 1
    elif after[axis] <= -extent:
        before[axis], after[axis] = padded - 1, 1 - extent


CONVERTERS: dict[str, Converter] = {
    "grid_sampler_2d.default": _grid_sample(2),
    "grid_sampler_3d.default": _grid_sample(3),
    "pad.default": _pad,
}
"""By the names that TVM's importer has for operations, whose own converters they replace."""
