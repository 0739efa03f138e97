"""Deformable convolution: one that looks for its inputs where a second tensor tells."""

from collections.abc import Mapping, Sequence

from tvm import te, tirx, topi

from relay_layout.errors import ModelError
from relay_layout.ir import Expression, dtype_of
from relay_layout.relay.operators.attributes import Attributes
from relay_layout.relay.operators.convolution_geometry import (
    Geometry,
    check_channels,
    geometry,
    prepare,
    weight_type,
)
from relay_layout.relay.operators.operator import Operator, Scope, static_extents
from relay_layout.relay.operators.windows import (
    count,
    full_padding,
    logical_extents,
    parsed_layout,
    physical_shape,
    positive,
    reordered,
    windows,
)
from relay_layout.relay.syntax.relay_types import RelayType, TensorType

_LOWERED = {"NCHW": "OIHW", "NHWC": "HWIO"}
"""Layouts of the data that are computed as they are, and the layout of the weight there."""


def _build(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    data, offset, weight = operands
    for operand in operands:
        static_extents(operand)
    found = geometry(2, data, weight, attributes)
    check_channels(attributes, found.weight["O"])
    deformable_groups = count("deformable_groups", attributes.deformable_groups)
    _check(found, offset, deformable_groups)
    given = str(found.data_layout)
    layout = given if given in _LOWERED else "NCHW"
    compute = topi.nn.deformable_conv2d_nhwc if layout == "NHWC" else topi.nn.deformable_conv2d_nchw
    out_dtype = found.out_dtype or dtype_of(data)

    def convolve(image: te.Tensor, offsets: te.Tensor, kernel: te.Tensor) -> te.Tensor:
        kernel = _ungrouped(kernel, _LOWERED[layout], found)
        geometry_arguments = (found.strides, found.padding, found.dilation)
        return compute(image, offsets, kernel, *geometry_arguments, deformable_groups, 1, out_dtype)

    result = scope.builder.call_te(
        convolve,
        scope.emit(reordered(data, given, layout)),
        scope.emit(reordered(offset, given, layout)),
        scope.emit(reordered(weight, str(found.kernel_layout), _LOWERED[layout])),
        primfunc_name_hint="deformable_conv2d",
    )
    return reordered(result, layout, str(found.out_layout))


def _check(found: Geometry, offset: Expression, deformable_groups: int) -> None:
    """ModelError where operands do not belong together: what is read is not checked when it runs."""
    channels = found.data["C"]
    if channels % deformable_groups:
        raise ModelError(f"{deformable_groups} deformable groups do not divide {channels} input channels")
    wanted = _offset_extents(found, deformable_groups)
    has = logical_extents(found.data_layout, static_extents(offset), "the offset")
    if has != wanted:
        shown, expected = ([str(sizes[axis]) for axis in "NCHW"] for sizes in (has, wanted))
        raise ModelError(f"the offset is {', '.join(shown)} (N, C, H, W), not {', '.join(expected)}")


def _offset_extents(found: Geometry, deformable_groups: int) -> dict[str, int]:
    height, width = found.kernel_size
    sizes = {"N": found.data["N"], "C": 2 * height * width * deformable_groups}
    moved = windows(found.kernel_size, found.strides, found.dilation, found.padding)
    return sizes | {axis: window.count(found.data[axis]) for axis, window in zip("HW", moved, strict=True)}


def _ungrouped(kernel: te.Tensor, layout: str, found: Geometry) -> te.Tensor:
    """The weight with all input channels, zeros for those of other groups: TVM's compute has no groups."""
    if found.groups == 1:
        return kernel
    inputs, outputs = found.weight["I"], found.weight["O"]
    place = layout.index("I")
    shape = list(kernel.shape)
    shape[place] = inputs * found.groups

    def element(*index: tirx.Var) -> tirx.Expr:
        channel, result = index[place], index[layout.index("O")]
        inside = [channel % inputs if axis == place else value for axis, value in enumerate(index)]
        own = tirx.all(channel // inputs == result // (outputs // found.groups))
        return tirx.if_then_else(own, kernel(*inside), tirx.const(0, kernel.dtype))

    return te.compute(shape, element, name="ungrouped")


def _operand_types(known: Sequence[RelayType | None], attributes: Attributes) -> Mapping[int, RelayType]:
    """The weight and the offset, where ``channels`` and ``kernel_size`` are given."""
    types = dict(weight_type(2, position=2)(known, attributes))
    data = known[0]
    if not types or not isinstance(data, TensorType) or None in data.shape:
        return types
    layout = parsed_layout("data_layout", attributes.data_layout, "NCHW")
    sizes = dict(logical_extents(layout, data.shape, "the data"))
    kernel = positive("kernel_size", attributes.kernel_size, 2)
    strides, dilation = (positive(name, attributes[name], 2) for name in ("strides", "dilation"))
    moved = windows(kernel, strides, dilation, full_padding(attributes.padding, 2))
    groups = count("deformable_groups", attributes.deformable_groups)
    sizes |= {axis: window.count(sizes[axis]) for axis, window in zip("HW", moved, strict=True)}
    sizes["C"] = 2 * kernel[0] * kernel[1] * groups
    return types | {1: TensorType(physical_shape(layout, sizes), data.dtype)}


ROW = Operator(
    "nn.deformable_conv2d",
    ("data", "offset", "weight"),
    _build,
    "DeformableConv2DAttrs",
    signature=(
        "data, offset, weight, strides=(1, 1), padding=(0, 0), dilation=(1, 1), deformable_groups=1, "
        "groups=1, channels=None, kernel_size=None, data_layout='NCHW', kernel_layout='OIHW', out_layout='', "
        "out_dtype=''"
    ),
    prepare=prepare(2, ("data", "offset", "weight"), "OIHW"),
    operand_types=_operand_types,
    carried=True,
)
"""nn.deformable_conv2d (data, offset, weight): offset has the shift of each tap, rows and columns."""
