"""PyTorch's operations by extents that a program leaves open, where TVM's importer takes numbers alone."""

import math
from itertools import pairwise
from typing import Any

from tvm import relax

from relay_layout.errors import ModelError
from relay_layout.frontend.operators.padding import filled_beyond, read_beyond
from relay_layout.frontend.operators.ranking import best_elements
from relay_layout.frontend.torch.node import Converter, argument, is_negative, value_of
from relay_layout.frontend.torch.operators.counted import counts_of
from relay_layout.ir import Expression, dtype_of, is_static, same_extents, scalar, shape_of


def _split(node: Any, importer: Any) -> Expression:
    """``split(data, size or sizes, dim=0)``: as many parts as there are in the example."""
    data, emit = importer.env[node.args[0]], importer.block_builder.emit
    shape, count = shape_of(data), len(node.meta["val"])
    if shape is None:
        raise ModelError(f"node '{node.name}': splitting a tensor of unknown shape is not supported")
    axis = int(argument(node, 2, "dim", 0)) % len(shape)
    given = node.args[1]
    sizes = list(given) if isinstance(given, list | tuple) else [given] * count
    sizes = [value_of(importer, size) for size in sizes]
    ends: list[Any] = []
    for size in sizes[:-1]:
        ends.append((ends[-1] if ends else 0) + size)
    if is_static((*ends, shape[axis])):
        return emit(relax.op.split(data, ends, axis)) if ends else emit(relax.Tuple([data]))
    bounds = [0, *ends, shape[axis]]
    parts = [
        emit(relax.op.strided_slice(data, [axis], [begin], [end], [1], assume_inbound=True))
        for begin, end in pairwise(bounds)
    ]
    return emit(relax.Tuple(parts))


def _repeat(node: Any, importer: Any) -> Expression:
    """``repeat(data, repeats)``: dimensions that the data lack come first."""
    data, emit = importer.env[node.args[0]], importer.block_builder.emit
    repeats = [value_of(importer, count) for count in node.args[1]]
    if is_static(repeats):
        return emit(relax.op.tile(data, repeats))
    shape = [*[1] * (len(repeats) - len(shape_of(data) or ())), *(shape_of(data) or ())]
    apart = [part for extent in shape for part in (1, extent)]
    spread = [part for count, extent in zip(repeats, shape, strict=True) for part in (count, extent)]
    wide = emit(relax.op.broadcast_to(emit(relax.op.reshape(data, apart)), spread))
    return emit(
        relax.op.reshape(wide, [count * extent for count, extent in zip(repeats, shape, strict=True)])
    )


def _top(node: Any, importer: Any) -> Expression:
    """``topk(data, k, dim=-1, largest=True, sorted=True)``, always sorted."""
    data, builder = importer.env[node.args[0]], importer.block_builder
    shape, number = shape_of(data), value_of(importer, node.args[1])
    axis, largest = argument(node, 2, "dim", -1), bool(argument(node, 3, "largest", True))
    if isinstance(number, int):
        return builder.emit(relax.op.topk(data, number, axis, "both", largest, "int64"))
    if shape is None:
        raise ModelError(f"node '{node.name}': ordering a tensor of unknown shape is not supported")
    number = counts_of(importer).plain(number, f"{node.name}_number")
    return builder.emit(
        relax.Tuple(best_elements(builder, data, number, int(axis) % len(shape), largest=largest))
    )


def _deviation(is_root: bool) -> Converter:
    def convert(node: Any, importer: Any) -> Expression:
        """``var.correction(data, dim=None, correction=1, keepdim=False)``, or its root."""
        data, emit = importer.env[node.args[0]], importer.block_builder.emit
        shape = shape_of(data)
        if shape is None:
            raise ModelError(f"node '{node.name}': a variance of unknown shape is not supported")
        given = argument(node, 1, "dim")
        axes = list(range(len(shape))) if not given else [int(axis) % len(shape) for axis in given]
        correction = argument(node, 2, "correction", 1)
        keeps = bool(node.kwargs.get("keepdim", False))
        found = emit(relax.op.variance(data, axes, keeps))
        if correction:
            count = scalar(emit, math.prod((shape[axis] for axis in axes), start=1))
            number = emit(relax.op.astype(count, dtype_of(data)))
            less = emit(relax.op.subtract(number, relax.const(correction, dtype_of(data))))
            found = emit(relax.op.multiply(found, emit(relax.op.divide(number, less))))
        return emit(relax.op.sqrt(found)) if is_root else found

    return convert


variance = _deviation(False)


def _squeeze(node: Any, importer: Any) -> Expression:
    """``squeeze(data, dims)``: dimensions that are not of one element stay, and open ones are not."""
    data, shape = importer.env[node.args[0]], shape_of(importer.env[node.args[0]]) or ()
    given = argument(node, 1, "dim")
    listed = range(len(shape)) if given is None else given if isinstance(given, list | tuple) else [given]
    axes = sorted({int(axis) % max(1, len(shape)) for axis in listed})
    axes = [axis for axis in axes if axis < len(shape) and shape[axis] == 1]
    return importer.block_builder.emit(relax.op.squeeze(data, axes)) if axes else data


def _size(node: Any, importer: Any) -> Any:
    """``sym_size(data, dim)``: a number where it is one, as in a program whose loops export wrote out."""
    shape = shape_of(importer.env[node.args[0]])
    if shape is None:
        raise ModelError(f"node '{node.name}': the size of a tensor of unknown shape is not supported")
    return shape[int(node.args[1])]


def _reshape(node: Any, importer: Any) -> Expression:
    """``view(data, size)`` and ``reshape``."""
    data, size = importer.retrieve_args(node)[:2]
    shape = shape_of(data) or ()
    # Extents are compared as they are written: whether two are equal need not be known here.
    if same_extents(size, shape):
        return data
    return importer._emit_torch_reshape(data, size)


def padded(
    node: Any, importer: Any, value: Expression, given: list[Any], mode: str, fill: float
) -> Expression:
    """``value`` with as much around it as ``given`` says, the last dimension first; nothing is cut.

    That is ``fill`` in the ``mode`` "constant", else elements of ``value``.
    """
    emit = importer.block_builder.emit
    for place in range(len(given) // 2):
        if any(is_negative(width) for width in given[2 * place : 2 * place + 2]):
            raise ModelError(f"node '{node.name}': cutting by widths that are not known is not supported")
        widths = [value_of(importer, width) for width in given[2 * place : 2 * place + 2]]
        shape = list(shape_of(value) or ())
        axis = len(shape) - 1 - place
        if all(isinstance(width, int) and width == 0 for width in widths):
            continue
        if mode != "constant":
            bounds = (0 - widths[0], shape[axis] + widths[1])
            value = emit(read_beyond(emit, value, axis, bounds, mode))
            continue
        value = emit(filled_beyond(emit, value, axis, widths, relax.const(fill, dtype_of(value))))
    return value


CONVERTERS: dict[str, Converter] = {
    "repeat.default": _repeat,
    **dict.fromkeys(("reshape.default", "view.default"), _reshape),
    "split.Tensor": _split,
    **dict.fromkeys(("squeeze.default", "squeeze.dim", "squeeze.dims"), _squeeze),
    "split_with_sizes.default": _split,
    "std.correction": _deviation(True),
    "sym_size.int": _size,
    "topk.default": _top,
    "var.correction": variance,
}
"""By the names that TVM's importer has for operations, whose own converters they replace."""
