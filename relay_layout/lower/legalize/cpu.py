"""Relax operators to the computes of ``topi_ext``: one entry per operator.

Operators without an entry go to TVM's own legalisation. Constant weights are packed on the way into
the layout that the kernel reads fastest.
"""

from collections.abc import Callable
from typing import Any

from tvm import relax, te, topi

from relay_layout.ir import (
    Constant,
    Expression,
    constant_array,
    dtype_of,
    ints,
    is_static,
    operator_name,
    shape_of,
)
from relay_layout.lower.legalize.byte_products import byte_product_call, multiplies_bytes
from relay_layout.lower.legalize.channel_norms import channel_norm_call
from relay_layout.lower.legalize.common import COMMON_LEGALIZERS, Legalizer
from relay_layout.lower.legalize.convolutions import (
    call_compute,
    call_form,
    constant_convolution,
    convolution_options,
    packed_weight,
    typical_workload,
)
from relay_layout.lower.legalize.default import default_call
from relay_layout.lower.legalize.elementwise import (
    COMPUTES,
    EXTREMA,
    QUOTIENTS,
    extremum_call,
    negation_call,
    power_call,
    quotient_call,
    transcendental_call,
)
from relay_layout.lower.legalize.few_columns import few_columns_call
from relay_layout.lower.legalize.image_tiles import tiled_call
from relay_layout.lower.legalize.layout_transforms import layout_transform_call
from relay_layout.lower.legalize.packed_matrices import PackedMatrices
from relay_layout.lower.legalize.poolings import adaptive_pooling_call, plain_pooling_call, pooling_call
from relay_layout.lower.legalize.reductions import first_place_in_vectors, softmax_call
from relay_layout.lower.legalize.regions import roi_align_call
from relay_layout.lower.legalize.rejoined_parts import slice_bounds
from relay_layout.lower.legalize.resizing import resize2d_call
from relay_layout.lower.legalize.row_blocks import in_blocks, is_by_blocks
from relay_layout.lower.legalize.sampling import grid_sample_call
from relay_layout.lower.legalize.scans import SCANS, scan_call
from relay_layout.lower.legalize.scattering import scatter_elements_call, scatter_nd_call
from relay_layout.lower.legalize.sorting import median_call, sort_call
from relay_layout.lower.memory.in_place import CONCAT, SLICE
from relay_layout.targets import CpuTarget
from relay_layout.targets.convolutions import CONVOLUTION_AXES, CONVOLUTIONS, TRANSPOSED_CONVOLUTIONS
from relay_layout.targets.matrix_products import ROWS, product_workload
from topi_ext import compute
from topi_ext.compute.joining import joined
from topi_ext.compute.pair_product import FEWEST_ROWS, pair_product


def legalization_map(target: CpuTarget) -> dict[str, Legalizer]:
    """For ``relax.transform.LegalizeOps(customize_legalize_map=...)``."""

    def known(builder: relax.BlockBuilder, call: relax.Call, images: int | None = None) -> Expression:
        chosen = constant_convolution(builder, call, target, images)
        return _convolution(builder, call) if chosen is None else chosen

    def tiled(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
        by_tiles = tiled_call(builder, call, known, target)
        return known(builder, call) if by_tiles is None else by_tiles

    legalizers = _LEGALIZERS | {
        "matmul": _products(target),
        **dict.fromkeys(CONVOLUTIONS, tiled),
    }
    return {f"relax.{name}": legalizer for name, legalizer in legalizers.items()}


def _convolution(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """A convolution of any rank, plain or transposed, in the layouts that its attributes name."""
    operator, attributes = operator_name(call), call.attrs
    data = call.args[0]
    weight, kernel_layout, out_channels = packed_weight(call)
    options = convolution_options(attributes, kernel_layout)
    if out_channels is not None:
        options["out_channels"] = out_channels
    if operator in TRANSPOSED_CONVOLUTIONS:
        options["output_padding"] = ints(attributes.output_padding)
    else:
        options["known"] = typical_workload(call)
    name = operator.removeprefix("nn.")
    convolve = _CONVOLUTIONS[name]
    return call_compute(
        builder, lambda tensor, kernel: convolve(tensor, kernel, **options), name, data, weight
    )


def _products(target: CpuTarget) -> Legalizer:
    """Rows by a constant matrix: a pointwise convolution whose pixels are the rows."""
    matrices = PackedMatrices()

    def legalize(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
        data, weight = call.args
        if multiplies_bytes(call):
            return byte_product_call(builder, call, target.processor)
        if not _is_dense(data, weight):
            if _is_by_pairs(call, target):
                return call_compute(builder, pair_product, "matmul", data, weight)
            by_dots = few_columns_call(builder, call)
            return default_call(builder, call) if by_dots is None else by_dots

        def product(rows: Expression) -> Expression:
            shape = shape_of(rows) or ()
            workload = product_workload(shape, constant_array(weight).shape[1], str(rows.ty.dtype))
            form = target.float_form(workload) if is_static(shape) else workload
            return call_form(builder, "dense", form, rows, matrices.packed(weight, form))

        if is_by_blocks(data):
            return in_blocks(builder, data, product)
        return product(data)

    return legalize


def _is_dense(data: Expression, weight: Expression) -> bool:
    rows, matrix = shape_of(data), shape_of(weight)
    return (
        isinstance(weight, Constant)
        and rows is not None
        and matrix is not None
        and len(rows) in ROWS
        and len(matrix) == 2
        and isinstance(rows[-1], int)
        and str(data.ty.dtype) == str(weight.ty.dtype)
    )


def _is_by_pairs(call: relax.Call, target: CpuTarget) -> bool:
    """Whether a product of two activations is made of pairs of bfloat16, by instructions that are faster."""
    if target.precision != "bf16" or target.processor.bfloat16_instructions != 1:
        return False
    if any(dtype_of(operand) != "float32" for operand in (*call.args, call)):
        return False
    left, right = (shape_of(operand) or () for operand in call.args)
    if min(len(left), len(right)) < 2 or not is_static((left[-2], *right[-2:])):
        return False
    return left[-2] >= FEWEST_ROWS and right[-2] > 1


def _concat(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """Operands are marked, so that they can be computed in their places.

    Where an extent along the axis is known late, they are copied one after the other.
    """
    operands, axis = call.args[0], call.attrs.axis
    shape = shape_of(call)
    if not isinstance(operands, relax.Tuple) or shape is None or axis is None:
        return default_call(builder, call)
    place = int(axis) % len(shape)
    if not isinstance(shape[place], int):
        return builder.call_te(joined, list(operands.fields), place, primfunc_name_hint="concat_in_turn")
    return builder.call_te(
        topi.concatenate,
        list(operands.fields),
        place,
        primfunc_name_hint="concat",
        primfunc_attrs={CONCAT: place},
    )


def _slice(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """Neighbours along one axis are marked, so that they can be read in their places."""
    run = slice_bounds(call)
    if run is None:
        return default_call(builder, call)

    def neighbours(data: te.Tensor) -> te.Tensor:
        axis = run.axis
        shape = [*data.shape[:axis], run.end - run.begin, *data.shape[axis + 1 :]]

        def element(*index: Any) -> Any:
            return data(*index[:axis], index[axis] + run.begin, *index[axis + 1 :])

        return te.compute(shape, element, name="slice")

    return builder.call_te(
        neighbours,
        call.args[0],
        primfunc_name_hint="strided_slice",
        primfunc_attrs={SLICE: [run.axis, run.begin]},
    )


def _pixel_shuffle(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """Channel ``(o * r + i) * r + j`` of pixel (y, x) to channel o of pixel ``(y * r + i, x * r + j)``."""
    factor = int(call.attrs.upscale_factor)

    def shuffle(data: te.Tensor) -> te.Tensor:
        *outer, channels, rows, columns = data.shape

        def element(*index: Any) -> Any:
            *before, channel, row, column = index
            source = (channel * factor + row % factor) * factor + column % factor
            return data(*before, source, row // factor, column // factor)

        shape = [*outer, channels // (factor * factor), rows * factor, columns * factor]
        return te.compute(shape, element, name="pixel_shuffle")

    return builder.call_te(shuffle, call.args[0], primfunc_name_hint="pixel_shuffle")


def _multiply_add(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    def multiply_add(left: te.Tensor, right: te.Tensor, addend: te.Tensor) -> te.Tensor:
        return topi.add(topi.multiply(left, right), addend)

    return builder.call_te(multiply_add, *call.args, primfunc_name_hint="multiply_add")


_CONVOLUTIONS: dict[str, Callable[..., te.Tensor]] = {
    "conv1d": compute.conv1d,
    "conv2d": compute.conv2d,
    "conv3d": compute.conv3d,
    "conv1d_transpose": compute.conv_transpose,
    "conv2d_transpose": compute.conv_transpose,
    "conv3d_transpose": compute.conv_transpose,
}

_LEGALIZERS: dict[str, Legalizer] = {
    **COMMON_LEGALIZERS,
    **dict.fromkeys(CONVOLUTION_AXES, _convolution),
    **dict.fromkeys(COMPUTES, transcendental_call),
    **dict.fromkeys(("nn.softmax", "nn.log_softmax"), softmax_call),
    **dict.fromkeys(QUOTIENTS, quotient_call),
    **dict.fromkeys(EXTREMA, extremum_call),
    **dict.fromkeys(("argmax", "argmin"), first_place_in_vectors),
    **dict.fromkeys(("sort", "argsort", "topk"), sort_call),
    **dict.fromkeys(SCANS, scan_call),
    **dict.fromkeys(("nn.instance_norm", "nn.group_norm"), channel_norm_call),
    "concat": _concat,
    "layout_transform": layout_transform_call,
    "ewise_fma": _multiply_add,
    "image.grid_sample": grid_sample_call,
    "image.resize2d": resize2d_call,
    "logical_not": negation_call,
    "median": median_call,
    "power": power_call,
    "nn.pixel_shuffle": _pixel_shuffle,
    "scatter_elements": scatter_elements_call,
    "scatter_nd": scatter_nd_call,
    "vision.roi_align": roi_align_call,
    "strided_slice": _slice,
    **dict.fromkeys(("nn.max_pool2d", "nn.avg_pool2d"), pooling_call),
    **{f"nn.{kind}_pool{rank}d": plain_pooling_call for kind in ("max", "avg") for rank in (1, 3)},
    "nn.adaptive_avg_pool2d": adaptive_pooling_call,
}
