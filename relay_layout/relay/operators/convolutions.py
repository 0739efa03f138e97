"""Convolutions, also transposed ones, on plain layouts and on blocks of channels."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from tvm import relax

from relay_layout.ir import Expression, is_static, operator_name
from relay_layout.layout import Layout
from relay_layout.relay.operators import convolution_gradients, deformable
from relay_layout.relay.operators.attributes import Attributes
from relay_layout.relay.operators.convolution_geometry import (
    check_channels,
    geometry,
    prepare,
    shape_attributes,
    weight_type,
)
from relay_layout.relay.operators.direct import named_attributes, plain, relax_function
from relay_layout.relay.operators.operator import Build, Export, Operator, Scope, extents
from relay_layout.relay.operators.windows import SPATIAL, numbers, reordered


def _convolution(rank: int, *, transposed: bool = False) -> Operator:
    spatial = SPATIAL[rank]
    name, kind = (f"nn.conv{rank}d_transpose", "Transpose") if transposed else (f"nn.conv{rank}d", "")
    kernel_layout = f"IO{spatial}" if transposed else f"OI{spatial}"
    one, zero = (1, 0) if rank == 1 and not transposed else ((1,) * rank, (0,) * rank)
    output_padding = f"output_padding={zero}, " if transposed else ""
    return Operator(
        name,
        ("data", "weight"),
        build_transposed(rank) if transposed else build_convolution(rank),
        f"Conv{rank}D{kind}Attrs",
        signature=(
            f"data, weight, strides={one}, padding={zero}, dilation={one}, groups=1, "
            f"channels=None, kernel_size=None, data_layout='NC{spatial}', kernel_layout='{kernel_layout}', "
            f"out_layout='', {output_padding}out_dtype=''"
        ),
        prepare=prepare(rank, ("data", "weight"), kernel_layout),
        relax_names=(name,),
        export=_export(rank, name, transposed=transposed),
        operand_types=weight_type(rank, transposed=transposed),
    )


def build_convolution(rank: int) -> Build:
    """How a convolution over ``rank`` axes is computed, of floating point or of integers."""
    function = relax_function(f"nn.conv{rank}d")

    def build(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
        data, weight = operands
        found = geometry(rank, data, weight, attributes, blocked=True)
        kernel_layout = str(found.kernel_layout)
        multiplier = found.weight["I"]
        outputs = found.weight["O"]
        if found.has_multiplier:
            weight, kernel_layout = _merged(scope, weight, kernel_layout)
            outputs = outputs * multiplier
        check_channels(attributes, outputs, found.kernel_layout.block("O"))
        weight, kernel_layout = _with_single_blocks(scope, weight, kernel_layout)
        return function(
            data,
            weight,
            strides=found.strides,
            padding=found.padding,
            dilation=found.dilation,
            groups=found.groups,
            data_layout=str(found.data_layout),
            kernel_layout=kernel_layout,
            out_layout=str(found.out_layout),
            out_dtype=found.out_dtype,
        )

    return build


def _merged(scope: Scope, weight: Expression, layout: str) -> tuple[Expression, str]:
    """A depthwise weight with the results of each channel on axis O, and its layout."""
    target = layout.replace("I", "").replace("O", "OI")
    weight = scope.emit(reordered(weight, layout, target))
    shape = list(extents(weight))
    place = target.index("O")
    shape[place : place + 2] = [shape[place] * shape[place + 1], 1]
    return relax.op.reshape(weight, shape), target


def _with_single_blocks(scope: Scope, weight: Expression, layout: str) -> tuple[Expression, str]:
    """A weight with one block at most of each axis, which is all that TVM's layouts have, and its layout.

    Parts of an axis that instructions multiply together, as in OIHW4i16o4i, become one block.
    """
    axes = Layout.parse(layout).axes
    blocks: dict[str, list[int]] = {}
    for place, axis in enumerate(axes):
        if axis.factor is not None:
            blocks.setdefault(axis.name, []).append(place)
    if all(len(places) == 1 for places in blocks.values()):
        return weight, layout
    shape = extents(weight)
    outer = [place for place, axis in enumerate(axes) if axis.factor is None]
    order = [*outer, *(place for places in blocks.values() for place in places)]
    sizes = {name: prod(shape[place] for place in places) for name, places in blocks.items()}
    moved = scope.emit(relax.op.permute_dims(weight, order))
    text = "".join(axes[place].name for place in outer)
    text += "".join(f"{size}{name.lower()}" for name, size in sizes.items())
    joined = relax.op.reshape(moved, [*(shape[place] for place in outer), *sizes.values()])
    return scope.emit(joined), text


def _export(rank: int, relax_name: str, *, transposed: bool = False) -> Export:
    def export(call: relax.Call) -> Mapping[str, Any] | None:
        if operator_name(call) != relax_name:
            return None
        attributes = call.attrs
        names = ["strides", "padding", "dilation", "groups", "data_layout", "kernel_layout"]
        names += ["output_padding"] if transposed else []
        values = named_attributes(call, *names)
        out_layout = plain(attributes.out_layout) or ""
        values["out_layout"] = "" if out_layout == values["data_layout"] else out_layout
        values["out_dtype"] = str(attributes.out_dtype) if attributes.out_dtype else None
        values |= shape_attributes(
            rank, values["kernel_layout"], call.args[1], values["groups"], transposed=transposed
        )
        return values

    return export


def build_transposed(rank: int) -> Build:
    """How a transposed convolution over ``rank`` axes is computed, of floating point or of integers."""
    function = relax_function(f"nn.conv{rank}d_transpose")

    def build(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
        data, weight = operands
        found = geometry(rank, data, weight, attributes, transposed=True, blocked=True)
        check_channels(attributes, found.weight["O"] * found.groups, found.kernel_layout.block("O"))
        return function(
            data,
            weight,
            strides=found.strides,
            padding=found.padding,
            output_padding=numbers("output_padding", attributes.output_padding, (rank,)),
            dilation=found.dilation,
            groups=found.groups,
            data_layout=str(found.data_layout),
            kernel_layout=str(found.kernel_layout),
            out_layout=str(found.out_layout),
            out_dtype=found.out_dtype,
        )

    return build


def _build_contributed(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    """The convolution; these forms need not say how large the two blocks of their weight are."""
    weight = extents(operands[1])
    if attributes.kernel_layout == "OIHW" and len(weight) == 6 and is_static(weight[4:]):
        layout = f"OIHW{weight[4]}i{weight[5]}o"
        attributes = Attributes({**attributes, "kernel_layout": layout})
    return build_convolution(2)(scope, operands, attributes)


def _contributed(name: str) -> Operator:
    """The forms of conv2d that Relay's AlterOpLayout leaves behind; here conv2d takes blocks itself."""
    return Operator(
        name,
        ("data", "kernel"),
        _build_contributed,
        "Conv2DAttrs",
        signature=(
            "data, kernel, strides=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1, channels=None, "
            "kernel_size=None, data_layout='NCHW8c', kernel_layout='OIHW', out_layout='', out_dtype=''"
        ),
        prepare=prepare(2, ("data", "kernel"), "OIHW"),
        operand_types=weight_type(2),
    )


ROWS = (
    *(_convolution(rank) for rank in (1, 2, 3)),
    *(_convolution(rank, transposed=True) for rank in (1, 2, 3)),
    _contributed("nn.contrib_conv2d_NCHWc"),
    _contributed("nn.contrib_depthwise_conv2d_NCHWc"),
    deformable.ROW,
    convolution_gradients.ROW,
)
