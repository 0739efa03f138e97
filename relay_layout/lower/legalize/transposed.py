"""Transposed convolutions at the speed of convolutions: one of all phases, which are then moved into place.

Where the kernel is no multiple of the stride, taps that do not exist are zeros. As with padding, infinite
data becomes NaN there, unless a kernel skips them.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import tvm
from tvm import relax, te, tirx
from tvm.relax.expr_functor import PyExprMutator, mutator

from relay_layout.ir import (
    Constant,
    Expression,
    constant,
    constant_array,
    operator_name,
    out_layout,
    relax_functions,
    shape_of,
    visit_functions,
)
from relay_layout.layout.transform import apply
from relay_layout.targets.convolutions import CONVOLUTION_AXES, TRANSPOSED_CONVOLUTIONS, Convolution
from relay_layout.targets.phases import Phases, phases_of
from topi_ext.indexing import (
    BlockedCoordinate,
    Coordinate,
    block_of,
    logical_extent,
    physical_axes,
    physical_index,
)
from topi_ext.ir import nodes_of
from topi_ext.workloads.stacked_phases import PHASES

_OPERATORS: dict[str, Callable[..., Expression]] = {
    "nn.conv1d": relax.op.nn.conv1d,
    "nn.conv2d": relax.op.nn.conv2d,
    "nn.conv3d": relax.op.nn.conv3d,
}


def by_phases(module: tvm.IRModule) -> tvm.IRModule:
    """The module with phases in the place of transposed convolutions by constant weights, where they can be.

    The convolutions that make them stay calls, and are lowered as all others.
    """
    bodies = (function.body for function in relax_functions(module).values())
    calls = (call for body in bodies for call in nodes_of(body, relax.Call))
    if not any(operator_name(call) in TRANSPOSED_CONVOLUTIONS for call in calls):
        return module
    return visit_functions(_ByPhases(module), module)


@mutator
class _ByPhases(PyExprMutator):
    def visit_call_(self, call: relax.Call) -> Expression:
        call = super().visit_call_(call)
        if operator_name(call) not in TRANSPOSED_CONVOLUTIONS:
            return call
        call = self.builder_.normalize(call)
        made = phased_call(self.builder_, call, lambda _, phases: phases, in_place=True)
        return call if made is None else made


def phased_call(
    builder: relax.BlockBuilder,
    call: relax.Call,
    convolve: Callable[[relax.BlockBuilder, relax.Call], Expression],
    in_place: bool = False,
) -> Expression | None:
    """A transposed convolution with a constant weight as phases; None where it must keep its loops.

    ``convolve`` lowers calls of the plain operators. If ``in_place``, their kernels can store phases where
    they belong.
    """
    data, weight = call.args
    attributes = call.attrs
    data_layout, result_layout = str(attributes.data_layout), out_layout(attributes)
    convolution = _convolution(call)
    if convolution is None or not isinstance(weight, Constant):
        return None
    phases = phases_of(convolution, attributes, data_layout, result_layout, in_place=in_place)
    if phases is None:
        return None
    plain = apply(constant_array(weight), str(attributes.kernel_layout), f"OI{convolution.spatial}")
    kernel = apply(stacked_weight(plain, phases), f"OI{convolution.spatial}", phases.layouts.kernel)
    stacked = _OPERATORS[phases.convolution.operator](
        data,
        constant(kernel),
        strides=list(phases.strides),
        padding=list(phases.padding),
        dilation=list(phases.dilation),
        data_layout=data_layout,
        kernel_layout=phases.layouts.kernel,
        out_layout=phases.layouts.out,
        out_dtype=str(call.ty.dtype),
    )
    made = convolve(builder, builder.normalize(stacked))
    if phases.are_result:
        return made
    return builder.call_te(
        partial(spread, phases=phases),
        builder.emit(made),
        relax.ShapeExpr(list(shape_of(call) or ())),
        primfunc_name_hint="spread_phases",
        primfunc_attrs={PHASES: True} if phases.in_place else None,
    )


def stacked_weight(weight: np.ndarray, phases: Phases) -> np.ndarray:
    """The kernel [outputs of all phases, inputs, window] of a transposed one [O, inputs, taps]."""
    convolution, outputs = phases.convolution, phases.out_channels
    stacked = np.zeros((convolution.out_channels, weight.shape[1], *convolution.kernel), weight.dtype)
    every = slice(None)
    for place, phase in enumerate(product(*(range(axis.phases) for axis in phases.axes))):
        channels = slice(place * outputs, (place + 1) * outputs)
        for window in product(*(range(axis.window) for axis in phases.axes)):
            taps = [axis.tap(*along) for axis, *along in zip(phases.axes, phase, window, strict=True)]
            if all(0 <= tap < axis.taps for tap, axis in zip(taps, phases.axes, strict=True)):
                held: tuple[Any, ...] = (channels, every, *window)
                read: tuple[Any, ...] = (every, every, *taps)
                stacked[held] = weight[read]
    return stacked


def spread(stacked: te.Tensor, shape: Sequence[Any], phases: Phases) -> te.Tensor:
    """Stacked phases moved into place: a result of ``shape`` in its layout."""
    spatial, held = phases.convolution.spatial, phases.layouts.out
    out_layout = phases.result_layout
    block, outputs = block_of(out_layout, "C"), phases.out_channels
    out_axes = physical_axes(out_layout)

    def element(*index: tirx.Var) -> tirx.Expr:
        position = dict(zip(out_axes, index, strict=True))
        source: dict[str, Coordinate] = {"N": position["N", 0]}
        phase: Any = 0
        reached = []
        for name, axis in zip(spatial, phases.axes, strict=True):
            place = position[name, 0] + axis.skipped
            source[name] = place // axis.stride
            phase = phase * axis.phases + place % axis.stride
            if axis.phases < axis.stride:
                reached.append(place % axis.stride < axis.phases)
        source["C"] = phase * outputs + position["C", 0]
        if block > 1:
            blocks = phase * (outputs // block) + position["C", 0]
            source["C"] = BlockedCoordinate(blocks, position["C", block], block)
        value = stacked(*physical_index(held, source))
        if not reached:
            return value
        return tirx.if_then_else(tirx.all(*reached), value, tirx.const(0, stacked.dtype))

    attributes = {PHASES: phases.stacked.numbers()} if phases.in_place else {}
    return te.compute(list(shape), element, name="spread_phases", attrs=attributes)


def _convolution(call: relax.Call) -> Convolution | None:
    """The extents of a call whose layouts may be blocked."""
    operator, attributes = operator_name(call), call.attrs
    shapes = [shape_of(part) for part in call.args]
    if any(shape is None for shape in shapes):
        return None
    layouts = [str(attributes.data_layout), str(attributes.kernel_layout)]
    data, weight = (
        {name: logical_extent(layout, shape or (), name) for name, _ in physical_axes(layout)}
        for layout, shape in zip(layouts, shapes, strict=True)
    )
    spatial, groups = CONVOLUTION_AXES[operator][2:], int(attributes.groups)
    image, kernel = (tuple(extents[name] for name in spatial) for extents in (data, weight))
    return Convolution(operator, data["N"], data["C"], weight["O"] * groups, image, kernel, groups)
