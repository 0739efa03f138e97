"""Relax operators to the computes of CUDA kernels: convolutions and dense layers as matrix products.

Everything else goes to TVM's own legalisation.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from tvm import relax, te, tirx

from relay_layout.ir import (
    Constant,
    Expression,
    constant,
    constant_array,
    dtype_of,
    is_static,
    out_layout,
    shape_of,
)
from relay_layout.layout import Layout
from relay_layout.layout.transform import apply
from relay_layout.lower.fusion.patterns import OPAQUE, PATTERN
from relay_layout.lower.legalize.byte_products import byte_product_call, multiplies_bytes
from relay_layout.lower.legalize.common import COMMON_LEGALIZERS, Legalizer
from relay_layout.lower.legalize.convolutions import call_compute
from relay_layout.lower.legalize.default import default_call
from relay_layout.lower.legalize.resizing import whole_resize_call
from relay_layout.lower.legalize.transposed import phased_call
from relay_layout.lower.narrow_storage import KEEPS_DTYPE
from relay_layout.rewrite.moving import emit_transform
from relay_layout.targets.convolutions import Convolution
from relay_layout.targets.cuda import (
    CudaTarget,
    depthwise_workload,
    gemm_workload,
    is_few_rows,
    padded_channels,
)
from topi_ext.cuda.compute.depthwise import depthwise_conv2d, pack_depthwise
from topi_ext.cuda.compute.implicit_gemm import (
    pack_weight,
    partial_products,
    result_of,
    rows_as_image,
)
from topi_ext.cuda.compute.row_product import MOST_ROWS, pack_rows, row_product
from topi_ext.cuda.compute.winograd import (
    pack_winograd,
    transformed_image,
    transformed_products,
    winograd_products,
)
from topi_ext.cuda.winograd_knobs import WinogradGemmKnobs
from topi_ext.cuda.workload import DepthwiseConvolution, GemmConvolution
from topi_ext.indexing import physical_axes

CHANNELS_LAST = Layout.parse("NHWC")


def cuda_legalization_map(target: CudaTarget) -> dict[str, Legalizer]:
    """For ``relax.transform.LegalizeOps(customize_legalize_map=...)``.

    A matrix that several products of few rows read, as the steps of a recurrent layer do, is packed once and
    stays one weight of the artifact.
    """
    # Each matrix is kept: its handle is another's once the object is gone.
    done: dict[int, tuple[Constant, Constant]] = {}

    def packed(matrix: Constant) -> Constant:
        key = matrix.__chandle__()
        if key not in done:
            done[key] = matrix, _packed_rows(constant_array(matrix).T, target)
        return done[key][1]

    def conv2d(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
        chosen = _convolution(builder, call, target)
        return default_call(builder, call) if chosen is None else chosen

    def transposed(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
        phased = phased_call(builder, call, conv2d)
        return default_call(builder, call) if phased is None else phased

    def matmul(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
        if multiplies_bytes(call):
            return byte_product_call(builder, call)
        chosen = _dense(builder, call, target, packed)
        return default_call(builder, call) if chosen is None else chosen

    legalizers = COMMON_LEGALIZERS | {
        "nn.conv2d": conv2d,
        "nn.conv2d_transpose": transposed,
        "matmul": matmul,
        "image.resize2d": whole_resize_call,
    }
    return {f"relax.{name}": legalizer for name, legalizer in legalizers.items()}


def _convolution(builder: relax.BlockBuilder, call: relax.Call, target: CudaTarget) -> Expression | None:
    """A float32 convolution with a constant weight, NHWC or of channels in blocks; None for any other."""
    if not _is_float32(call):
        return None
    if is_blocked(call.attrs):
        return _unblocked(builder, call, target)
    data, weight = call.args
    attributes = call.attrs
    shape = shape_of(data) or ()
    layouts = {str(attributes.data_layout), out_layout(attributes)}
    static = is_static([*shape, *(shape_of(call) or ())])
    if not static or layouts != {"NHWC"} or not isinstance(weight, Constant):
        return None
    plain = apply(constant_array(weight), str(attributes.kernel_layout), "OHWI")
    batch, height, width, channels = shape
    convolution = Convolution(
        "nn.conv2d",
        batch,
        channels,
        plain.shape[0],
        (height, width),
        (plain.shape[1], plain.shape[2]),
        int(attributes.groups),
    )
    if convolution.is_depthwise:
        depthwise = depthwise_workload(convolution, attributes, target.multiplied)
        return (
            None
            if depthwise is None
            else depthwise_call(builder, data, plain, depthwise, target, "depthwise_conv2d")
        )
    workload = gemm_workload(convolution, attributes, target.multiplied)
    if workload is None:
        return None
    if is_few_rows(workload):
        return _rows(builder, data, _packed_rows(plain[:, 0, 0], target), (batch, 1, 1), "conv2d")
    data, plain = with_channels(builder, data, plain, workload.in_channels)
    extents = (workload.batch, workload.out_height, workload.out_width)
    return product_call(builder, data, plain, workload, extents, target, "conv2d")


def _is_float32(call: relax.Call) -> bool:
    """Are operands and result float32? Kernels of other floats, or of plain integers, are TVM's."""
    return {dtype_of(value) for value in (*call.args, call)} == {"float32"}


def is_blocked(attributes: Any) -> bool:
    """Are channels of the image or of the result in blocks?"""
    layouts = (str(attributes.data_layout), out_layout(attributes))
    return any(factor for layout in layouts for _, factor in physical_axes(layout))


def _unblocked(builder: relax.BlockBuilder, call: relax.Call, target: CudaTarget) -> Expression | None:
    """The same convolution in NHWC, for its image brought there and its result brought back; None of weights
    that are not constant.
    """
    data, weight = call.args
    attributes, dtype = call.attrs, dtype_of(call)
    if not isinstance(weight, Constant):
        return None
    plain = apply(constant_array(weight), str(attributes.kernel_layout), "OHWI")
    source = Layout.parse(str(attributes.data_layout))
    wanted = Layout.parse(out_layout(attributes))
    moved = emit_transform(builder, data, source, CHANNELS_LAST, dtype)
    same = relax.op.nn.conv2d(
        moved,
        constant(plain),
        strides=list(attributes.strides),
        padding=list(attributes.padding),
        dilation=list(attributes.dilation),
        groups=int(attributes.groups),
        data_layout="NHWC",
        kernel_layout="OHWI",
        out_layout="NHWC",
    )
    result = _convolution(builder, builder.normalize(same), target)
    if result is None:
        return None
    return emit_transform(builder, builder.emit(result), CHANNELS_LAST, wanted, dtype)


def with_channels(
    builder: relax.BlockBuilder, data: Expression, weight: np.ndarray, channels: int
) -> tuple[Expression, np.ndarray]:
    """NHWC data and an OHWI weight with zeros behind their input channels, up to ``channels``."""
    extra = channels - int((shape_of(data) or ())[-1])
    if not extra:
        return data, weight
    padded = builder.emit(builder.call_te(_padded, data, extra, primfunc_name_hint="pad_channels"))
    return padded, np.pad(weight, [(0, 0), (0, 0), (0, 0), (0, extra)])


def _padded(data: te.Tensor, extra: int) -> te.Tensor:
    """The same with zeros behind its channels, which are last."""
    *extents, channels = data.shape

    def element(*index: tirx.Var) -> tirx.Expr:
        inside = data(*index)
        return tirx.if_then_else(index[-1] < channels, inside, tirx.const(0, data.dtype))

    return te.compute((*extents, channels + extra), element, name="pad_channels")


def depthwise_call(
    builder: relax.BlockBuilder,
    data: Expression,
    weight: np.ndarray,
    workload: DepthwiseConvolution,
    target: CudaTarget,
    name: str,
    pad_value: int = 0,
) -> Expression:
    """One kernel of NHWC data; ``weight`` is OHWI, and ``pad_value`` lies around the image."""
    knobs = target.kernels.choose(workload).knobs
    packed = constant(pack_depthwise(weight, workload))

    def compute(image: te.Tensor, kernel: te.Tensor) -> te.Tensor:
        return depthwise_conv2d(image, kernel, workload, knobs, pad_value)

    return call_compute(builder, compute, name, data, packed)


def _dense(
    builder: relax.BlockBuilder, call: relax.Call, target: CudaTarget, packed: Callable[[Constant], Constant]
) -> Expression | None:
    """Rows by a constant matrix, of float32; None for any other product."""
    if not _is_float32(call):
        return None
    data, matrix = call.args
    shape, sides = shape_of(data), shape_of(matrix)
    if shape is None or not is_static(shape) or len(shape) < 2 or not isinstance(matrix, Constant):
        return None
    if sides is None or len(sides) != 2:
        return None
    *extents, channels = shape
    if prod(extents) <= MOST_ROWS:
        return _rows(builder, data, packed(matrix), extents, "dense")
    if padded_channels(channels) != channels:
        return None
    workload = GemmConvolution(
        batch=prod(extents),
        in_height=1,
        in_width=1,
        in_channels=channels,
        out_channels=sides[1],
        kernel=(1, 1),
        strides=(1, 1),
        padding=(0, 0, 0, 0),
        dilation=(1, 1),
        groups=1,
        dtype=target.multiplied,
    )
    weight = constant_array(matrix).transpose(1, 0)[:, None, None, :]
    return product_call(builder, data, weight, workload, extents, target, "dense")


def _rows(
    builder: relax.BlockBuilder,
    data: Expression,
    weight: Constant,
    extents: Sequence[int],
    name: str,
) -> Expression:
    """Few rows by :func:`_packed_rows`: one kernel that reads every weight once.

    On CUDA cores, so that TF32 has nothing to round.
    """

    def compute(rows: te.Tensor, matrix: te.Tensor) -> te.Tensor:
        return row_product(rows, matrix, extents)

    return call_compute(builder, compute, name, data, weight)


def _packed_rows(weight: np.ndarray, target: CudaTarget) -> Constant:
    """A matrix of (outputs, depth) as kernels of few rows read it."""
    return constant(pack_rows(weight.astype("float16" if target.precision == "fp16" else "float32")))


def product_call(
    builder: relax.BlockBuilder,
    data: Expression,
    weight: np.ndarray,
    workload: GemmConvolution,
    extents: Sequence[int],
    target: CudaTarget,
    name: str,
    pad_value: int = 0,
) -> Expression:
    """One kernel, or one that sums slices of the depth and one that adds them, or the three of Winograd's.

    ``data`` is NHWC, or where the window is one pixel of any rank with channels last; ``weight`` is OHWI;
    ``extents`` are those of the result but for its channels. ``pad_value`` lies around the image.
    """
    knobs = target.kernels.choose(workload).knobs
    if isinstance(knobs, WinogradGemmKnobs):
        return _winograd_call(builder, data, weight, workload, knobs)
    packed = constant(pack_weight(weight, workload, knobs))

    def sums(image: te.Tensor, kernel: te.Tensor) -> te.Tensor:
        view = image if tuple(map(int, image.shape)) == workload.data_shape else rows_as_image(image)
        return partial_products(view, kernel, workload, knobs, pad_value)

    def whole(image: te.Tensor, kernel: te.Tensor) -> te.Tensor:
        return result_of(sums(image, kernel), workload, extents, 1)

    if knobs.split_k == 1:
        return call_compute(builder, whole, name, data, packed)
    slices = builder.emit(
        builder.call_te(
            sums,
            data,
            packed,
            primfunc_name_hint=f"{name}_slices",
            primfunc_attrs={PATTERN: OPAQUE, KEEPS_DTYPE: True},
        )
    )
    return builder.call_te(
        lambda found: result_of(found, workload, extents, knobs.split_k),
        slices,
        primfunc_name_hint=f"{name}_sum",
    )


def _winograd_call(
    builder: relax.BlockBuilder,
    data: Expression,
    weight: np.ndarray,
    workload: GemmConvolution,
    knobs: WinogradGemmKnobs,
) -> Expression:
    """Three kernels of NHWC data, of which elementwise consumers may join the last; ``weight`` is OHWI."""
    alone = {PATTERN: OPAQUE}
    spread = builder.emit(
        builder.call_te(
            lambda image: transformed_image(image, workload, knobs),
            data,
            primfunc_name_hint="winograd_image",
            primfunc_attrs=alone,
        ),
        "winograd_image",
    )
    products = builder.emit(
        builder.call_te(
            lambda left, right: winograd_products(left, right, workload, knobs),
            spread,
            constant(pack_winograd(weight, workload, knobs)),
            primfunc_name_hint="winograd_products",
            primfunc_attrs=alone,
        ),
        "winograd_products",
    )
    return call_compute(
        builder,
        lambda found: transformed_products(found, workload, knobs),
        "conv2d_winograd",
        products,
    )
