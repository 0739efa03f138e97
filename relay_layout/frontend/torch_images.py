"""PyTorch's sampling of images and convolutions of volumes, which TVM's importer lacks or gets wrong."""

from collections.abc import Callable
from typing import Any

from tvm import relax

from relay_layout.ir import Expression, shape_of

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


def _convolution(node: Any, importer: Any) -> Expression:
    """``convolution``, of which TVM's importer lacks the transposed one of volumes."""
    data, weight, bias = importer.retrieve_args(node)[:3]
    stride, padding, dilation, transposed, output_padding, groups = node.args[3:9]
    if not transposed or len(shape_of(data) or ()) != 5:
        return importer._convolution(node)
    emit = importer.block_builder.emit
    found = emit(
        relax.op.nn.conv3d_transpose(
            data,
            weight,
            strides=stride,
            padding=padding,
            output_padding=output_padding,
            dilation=dilation,
            groups=groups,
        )
    )
    if bias is None:
        return found
    return emit(relax.op.add(found, emit(relax.op.reshape(bias, (1, -1, 1, 1, 1)))))


CONVERTERS: dict[str, Converter] = {
    "convolution.default": _convolution,
    "grid_sampler_2d.default": _grid_sample(2),
    "grid_sampler_3d.default": _grid_sample(3),
}
"""By the names that TVM's importer has for operations, whose own converters they replace."""

__all__ = ["CONVERTERS"]
