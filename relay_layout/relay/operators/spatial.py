"""Operators of relay.nn on neighbourhoods and blocks of pixels."""

from collections.abc import Mapping, Sequence
from typing import Any

from tvm import relax, topi

from relay_layout.errors import ModelError
from relay_layout.ir import Expression, Extent, dtype_of, is_static
from relay_layout.relay.operators.attributes import Attributes
from relay_layout.relay.operators.operator import Operator, Scope, extents, rank_of
from relay_layout.relay.operators.resizing import one_of
from relay_layout.relay.operators.windows import full_padding, numbers, per_axis, positive

_MOST_BLOCKED = 16
"""How many axes may be cut into blocks."""


def _pixels(data: Expression, layout: str) -> dict[str, Extent]:
    """The extents of an image by letter; all but the batch must be known."""
    one_of(layout, ("NCHW", "NHWC"), "layout")
    shape = extents(data)
    if len(shape) != 4:
        raise ModelError(f"the data has {len(shape)} dimensions, not 4")
    named = dict(zip(layout, shape, strict=True))
    for letter in "CHW":
        if not isinstance(named[letter], int):
            raise ModelError(f"the extent {letter} of the data must be known")
    return named


def _divided(extent: int, divisor: int, what: str) -> int:
    if extent % divisor:
        raise ModelError(f"{what} is {extent}, which {divisor} does not divide")
    return extent // divisor


def _rearranged(
    data: Expression, split: Sequence[Extent], order: Sequence[int], shape: Sequence[Extent]
) -> Expression:
    return relax.op.reshape(relax.op.permute_dims(relax.op.reshape(data, split), order), shape)


def _depth_to_space(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    (block,) = positive("block_size", attributes.block_size, 1)
    mode = one_of(attributes.mode, ("DCR", "CDR"), "mode")
    named = _pixels(operands[0], attributes.layout)
    batch, height, width = named["N"], named["H"], named["W"]
    depth = _divided(named["C"], block * block, "the number of channels")
    channels = (block, block, depth) if mode == "DCR" else (depth, block, block)
    # Where the rows of a block, its columns and the remaining channels are.
    parts = (0, 1, 2) if mode == "DCR" else (1, 2, 0)
    if attributes.layout == "NCHW":
        rows, columns, rest = (1 + part for part in parts)
        return _rearranged(
            operands[0],
            [batch, *channels, height, width],
            [0, rest, 4, rows, 5, columns],
            [batch, depth, height * block, width * block],
        )
    rows, columns, rest = (3 + part for part in parts)
    return _rearranged(
        operands[0],
        [batch, height, width, *channels],
        [0, 1, rows, 2, columns, rest],
        [batch, height * block, width * block, depth],
    )


def _space_to_depth(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    (block,) = positive("block_size", attributes.block_size, 1)
    named = _pixels(operands[0], attributes.layout)
    batch, channels = named["N"], named["C"]
    height = _divided(named["H"], block, "the height")
    width = _divided(named["W"], block, "the width")
    depth = channels * block * block
    if attributes.layout == "NCHW":
        split, order = [batch, channels, height, block, width, block], [0, 3, 5, 1, 2, 4]
        return _rearranged(operands[0], split, order, [batch, depth, height, width])
    split, order = [batch, height, block, width, block, channels], [0, 1, 3, 2, 4, 5]
    return _rearranged(operands[0], split, order, [batch, height, width, depth])


def _blocked(
    operands: Sequence[Expression], attributes: Attributes, pairs_name: str
) -> tuple[list[Extent], tuple[int, ...], list[tuple[int, ...]]]:
    """Extents of the data, block sizes, and what is added or taken on either side of each blocked axis."""
    shape = list(extents(operands[0]))
    pairs = attributes[pairs_name]
    if not isinstance(pairs, tuple) or not 1 <= len(pairs) <= _MOST_BLOCKED or len(pairs) >= len(shape):
        raise ModelError(
            f"{pairs_name} is {pairs}; it needs a pair for each axis after the first that is blocked"
        )
    blocks = positive("block_shape", attributes.block_shape, len(pairs))
    sides = [numbers(f"an entry of {pairs_name}", pair, (2,)) for pair in pairs]
    if not is_static(shape[1:]):
        raise ModelError("all extents of the data but the first must be known")
    return shape, blocks, sides


def _space_to_batch(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    shape, blocks, sides = _blocked(operands, attributes, "paddings")
    data, count = operands[0], len(blocks)
    if any(before or after for before, after in sides):
        width = [side for pair in ((0, 0), *sides) for side in pair] + [0, 0] * (len(shape) - count - 1)
        value = attributes.pad_value
        data = relax.op.nn.pad(
            data, width, "constant", value if dtype_of(data).startswith("float") else int(value)
        )
    split: list[Extent] = [shape[0]]
    for extent, block, (before, after) in zip(shape[1:], blocks, sides, strict=False):
        split += [_divided(extent + before + after, block, "a padded extent"), block]
    rest = shape[count + 1 :]
    order = [2 * axis + 2 for axis in range(count)] + [0] + [2 * axis + 1 for axis in range(count)]
    order += [2 * count + 1 + axis for axis in range(len(rest))]
    batch = shape[0]
    for block in blocks:
        batch = batch * block
    return _rearranged(data, [*split, *rest], order, [batch, *split[1::2], *rest])


def _batch_to_space(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    shape, blocks, sides = _blocked(operands, attributes, "crops")
    count = len(blocks)
    if not isinstance(shape[0], int):
        raise ModelError("the first extent of the data must be known")
    batch = shape[0]
    for block in blocks:
        batch = _divided(batch, block, "the batch")
    rest = shape[count + 1 :]
    order = [count]
    for axis in range(count):
        order += [count + 1 + axis, axis]
    order += [2 * count + 1 + axis for axis in range(len(rest))]
    whole = [extent * block for extent, block in zip(shape[1:], blocks, strict=False)]
    result = _rearranged(operands[0], [*blocks, batch, *shape[1:]], order, [batch, *whole, *rest])
    for extent, (before, after) in zip(whole, sides, strict=True):
        if before + after >= extent:
            raise ModelError(f"crops take {before} and {after} of an extent of {extent}")
    if not any(before or after for before, after in sides):
        return result
    return relax.op.strided_slice(
        result,
        list(range(1, count + 1)),
        [before for before, _ in sides],
        [extent - after for extent, (_, after) in zip(whole, sides, strict=True)],
        [1] * count,
    )


def _dilate(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    rank = rank_of(operands[0])
    strides = positive("strides", attributes.strides, rank)
    if not rank:
        raise ModelError("the data has no dimensions")
    return scope.builder.call_te(topi.nn.dilate, operands[0], list(strides), attributes.dilation_value)


def _correlation(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    one_of(attributes.layout, ("NCHW",), "layout")
    kernel, stride1, stride2 = positive(
        "kernel_size, stride1, stride2", (attributes.kernel_size, attributes.stride1, attributes.stride2), 3
    )
    (displacement,) = numbers("max_displacement", attributes.max_displacement, (1,))
    if kernel % 2 == 0:
        raise ModelError(f"kernel_size is {kernel}; it must be odd")
    shape = extents(operands[0])
    if len(shape) != 4 or shape != extents(operands[1]) or not is_static(shape):
        raise ModelError("both operands must have the same known shape of 4 dimensions")
    if not dtype_of(operands[0]).startswith("float"):
        raise ModelError(f"the data is {dtype_of(operands[0])}; it must be floating point")
    top, left, bottom, right = full_padding(attributes.padding, 2)
    border = displacement + (kernel - 1) // 2
    if min(shape[2] + top + bottom, shape[3] + left + right) <= 2 * border:
        raise ModelError(
            f"a padded image of {list(shape[2:])} has no pixel that is {border} from its borders"
        )
    return scope.builder.call_te(
        topi.nn.correlation_nchw,
        *operands,
        kernel,
        displacement,
        stride1,
        stride2,
        [top, left, bottom, right],
        attributes.is_multiply,
    )


def _prepare_correlation(**arguments: Any) -> tuple[Sequence[Any], Mapping[str, Any]]:
    arguments["padding"] = per_axis(arguments["padding"], 2)
    return [arguments.pop("data1"), arguments.pop("data2")], arguments


ROWS: tuple[Operator, ...] = (
    Operator(
        "nn.depth_to_space",
        ("data",),
        _depth_to_space,
        "SubPixelAttrs",
        signature="data, block_size, layout='NCHW', mode='DCR'",
    ),
    Operator(
        "nn.space_to_depth",
        ("data",),
        _space_to_depth,
        "SubPixelAttrs",
        signature="data, block_size, layout='NCHW'",
    ),
    Operator(
        "nn.space_to_batch_nd",
        ("data",),
        _space_to_batch,
        "SpaceToBatchNDAttrs",
        signature="data, block_shape, paddings, pad_value=0",
    ),
    Operator(
        "nn.batch_to_space_nd",
        ("data",),
        _batch_to_space,
        "BatchToSpaceNDAttrs",
        signature="data, block_shape, crops",
    ),
    Operator(
        "nn.dilate",
        ("data",),
        _dilate,
        "DilateAttrs",
        signature="data, strides, dilation_value=0.0",
        carried=True,
    ),
    Operator(
        "nn.correlation",
        ("data1", "data2"),
        _correlation,
        "CorrelationAttrs",
        signature=(
            "data1, data2, kernel_size, max_displacement, stride1, stride2, padding, is_multiply, layout"
        ),
        prepare=_prepare_correlation,
        carried=True,
    ),
)
