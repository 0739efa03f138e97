"""Whether the layouts that a module names fit its tensors: what can be checked of a module by itself."""

from collections.abc import Iterator, Mapping
from typing import Any

import tvm
from tvm import relax

from relay_layout.errors import LayoutError, VerificationError
from relay_layout.ir import Extent, known_to_differ, operator_name, relax_functions, shape_of
from relay_layout.layout import Layout

_DATA, _KERNEL, _RESULT = "data_layout", "kernel_layout", "out_layout"
_KERNEL_OPERAND = {"relay.nn.deformable_conv2d": 2}
"""The operand that ``kernel_layout`` describes, where it is not the second."""
_WITHOUT_OUTPUTS = "relay.image.dilation2d"
"""Its kernel has one image of each channel, and its result the data's channels."""
_OF_A_KERNEL = "relay.nn.conv2d_backward_weight"
"""Its result is a kernel, and its attributes describe other operands than those that their names say."""


def verify_module(module: tvm.IRModule) -> None:
    """Check every call of every Relax function whose attributes name layouts.

    Layouts must be texts that parse and have the ranks of their tensors, blocks must have the extents that
    the texts say, the result's layout must have the axes of the data's, the channels of data, kernel and
    result must agree, and pooling and resizing must keep batches and channels. Nothing is known of what the
    module was made from, so axes of equal extent may still be exchanged.

    Raises :class:`VerificationError` for the first that does not: one line that names function, binding,
    operator, attribute, and what is provided and expected.
    """
    for variable, function in relax_functions(module).items():
        for name, call in _calls(function):
            problem = _problem(call)
            if problem is not None:
                place = f"function '{variable.name_hint}', binding '{name}' ({operator_name(call)})"
                raise VerificationError(f"{place}: {problem}")


def _calls(function: relax.Function) -> Iterator[tuple[str, relax.Call]]:
    """Bound calls of operators, those in branches and functions within included."""
    pending: list[Any] = [function.body]
    while pending:
        expression = pending.pop()
        if isinstance(expression, relax.Function):
            pending.append(expression.body)
        elif isinstance(expression, relax.If):
            pending += [expression.false_branch, expression.true_branch]
        elif isinstance(expression, relax.SeqExpr):
            for binding in (binding for block in expression.blocks for binding in block.bindings):
                if operator_name(binding.value):
                    yield str(binding.var.name), binding.value
                elif isinstance(binding.value, relax.Function | relax.If | relax.SeqExpr):
                    pending.append(binding.value)


def _problem(call: relax.Call) -> str | None:
    texts = _layout_texts(call)
    if not texts or operator_name(call) == _OF_A_KERNEL:
        return None
    try:
        layouts = {name: Layout.parse(text) for name, text in texts.items()}
    except LayoutError as error:
        return str(error)
    data = "layout" if "layout" in layouts else _DATA
    if data not in layouts or not call.args:
        return None
    tensors = {data: call.args[0], _RESULT: call}
    kernel_operand = _KERNEL_OPERAND.get(operator_name(call), 1)
    if _KERNEL in layouts and len(call.args) > kernel_operand:
        tensors[_KERNEL] = call.args[kernel_operand]
    layouts.setdefault(_RESULT, layouts[data])
    extents: dict[str, Mapping[str, Extent]] = {}
    for name, tensor in tensors.items():
        found = _logical(name, layouts[name], tensor) if name in layouts else {}
        if isinstance(found, str):
            return found
        extents[name] = found
    if set(layouts[_RESULT].primal) != set(layouts[data].primal):
        return (
            f"attribute '{_RESULT}' is provided as {layouts[_RESULT]}, expected the axes of {layouts[data]}"
        )
    if _KERNEL in tensors and operator_name(call) != _WITHOUT_OUTPUTS:
        return _channels_problem(call, layouts, extents)
    return _kept_problem(_kept_axes(call), data, layouts, extents)


def _layout_texts(call: relax.Call) -> dict[str, str]:
    """The layout attributes of a call by name."""
    attributes = call.attrs
    if attributes is None:
        return {}
    if isinstance(attributes, tvm.ir.DictAttrs):
        given = {str(name): value for name, value in attributes.items()}
    else:
        given = {
            name: getattr(attributes, name)
            for name in ("layout", _DATA, _KERNEL, _RESULT)
            if hasattr(attributes, name)
        }
    names = ("layout", _DATA, _KERNEL, _RESULT)
    return {name: str(given[name]) for name in names if isinstance(given.get(name), str) and given[name]}


def _logical(name: str, layout: Layout, tensor: Any) -> Mapping[str, Extent] | str:
    """The extents of a tensor by axis, or what is wrong with its layout; none where its shape is unknown."""
    if not isinstance(tensor.ty, relax.TensorType):
        return {}
    shape = shape_of(tensor)
    if shape is None:
        return {}
    if layout.rank != len(shape):
        return f"attribute '{name}' is provided as {layout}, expected a layout of {len(shape)} dimensions"
    try:
        return dict(zip(layout.primal, layout.logical_shape(shape, layout.primal_layout), strict=True))
    except LayoutError as error:
        return f"attribute '{name}' is provided as {layout}: {error}"


def _kept_axes(call: relax.Call) -> str:
    """Axes of which an operator gives as much as it takes: it works on rows and columns."""
    name = operator_name(call)
    if "vision" in name or not any(part in name for part in ("pool", "resize", "upsampling", "dilation")):
        return ""
    # It gives an image for each box.
    return "C" if "crop" in name else "NC"


def _kept_problem(
    kept: str, data: str, layouts: Mapping[str, Layout], extents: Mapping[str, Mapping[str, Extent]]
) -> str | None:
    for axis in kept:
        wanted, provided = extents[data].get(axis), extents[_RESULT].get(axis)
        if known_to_differ(wanted, provided):
            return (
                f"an extent of {provided} for {axis} is provided by '{_RESULT}' {layouts[_RESULT]}, expected "
                f"{wanted} by '{data}' {layouts[data]}"
            )
    return None


def _channels_problem(
    call: relax.Call, layouts: Mapping[str, Layout], extents: Mapping[str, Mapping[str, Extent]]
) -> str | None:
    data, kernel, result = (extents.get(name, {}) for name in (_DATA, _KERNEL, _RESULT))
    missing = [axis for axis in "IO" if axis not in layouts[_KERNEL].primal]
    if missing:
        return f"attribute '{_KERNEL}' is provided as {layouts[_KERNEL]}, expected one with I and O"
    groups = _groups(call)
    if operator_name(call).startswith("relay.") and _has_multiplier(groups, data, kernel, layouts[_KERNEL]):
        kernel = {"I": 1, "O": _times(kernel["O"], int(kernel["I"]))}
    transposed = "transpose" in operator_name(call)
    # A transposed convolution has the groups in its outputs, the others in their inputs.
    wanted_data = _times(kernel.get("I"), groups if not transposed else 1)
    wanted_result = _times(kernel.get("O"), groups if transposed else 1)
    for name, wanted, provided in (
        (_DATA, wanted_data, data.get("C")),
        (_RESULT, wanted_result, result.get("C")),
    ):
        if known_to_differ(wanted, provided):
            return (
                f"{provided} channels are provided by '{name}' {layouts[name]}, expected {wanted} by "
                f"'{_KERNEL}' {layouts[_KERNEL]} with {groups} groups"
            )
    return None


def _has_multiplier(
    groups: int, data: Mapping[str, Extent], kernel: Mapping[str, Extent], layout: Layout
) -> bool:
    """Whether a kernel of Relay's has the input channels on O and the results of each one on I."""
    inputs, outputs = kernel.get("I"), kernel.get("O")
    return (
        layout.is_plain
        and groups > 1
        and groups == data.get("C") == outputs
        and isinstance(inputs, int)
        and inputs > 1
    )


def _groups(call: relax.Call) -> int:
    attributes = call.attrs
    if isinstance(attributes, tvm.ir.DictAttrs):
        return int(dict(attributes.items()).get("groups", 1))
    return int(getattr(attributes, "groups", 1))


def _times(extent: Extent | None, groups: int) -> Extent | None:
    return extent * groups if isinstance(extent, int) else None
