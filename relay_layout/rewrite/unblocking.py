"""Convolutions and poolings of blocked tensors as those of plain ones, where other layouts are asked of them.

A layout that divides no axis, or divides it otherwise, is none over the dimensions that a blocked tensor has:
the tensor is first put together to the dimensions that its operator speaks of.
"""

from collections.abc import Sequence
from itertools import chain
from math import prod

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from relay_layout.ir import (
    Expression,
    as_layout_change,
    bindings_of,
    is_static,
    operator_name,
    shape_of,
    with_attributes,
    with_main,
)
from relay_layout.layout import Layout
from relay_layout.layout_request import LayoutRequest
from relay_layout.targets.convolutions import CONVOLUTION_AXES, DEPTHWISE

_QUANTIZED = {"relay.qnn.conv2d": "qnn.conv2d", "relay.qnn.conv2d_transpose": "qnn.conv2d_transpose"}
"""Convolutions that Relax does not have, and Relay's names of them."""

_POOLINGS = {
    **{f"nn.{kind}_pool{rank}d": f"nn.{kind}_pool{rank}d" for kind in ("avg", "max") for rank in (1, 2, 3)},
    "nn.adaptive_avg_pool2d": "nn.global_avg_pool2d",
}
"""Poolings, and under which names layouts are asked of them."""


def with_plain_operators(module: tvm.IRModule, request: LayoutRequest) -> tvm.IRModule:
    """The module with plain convolutions and poolings, between transposes and reshapes, in place of blocked
    ones that the request names another layout for. All stay where it leaves out some by their position.
    """
    main = module["main"]
    asked = any(_is_asked(binding.value, request) for binding in bindings_of(main))
    if request.skip_layers or not asked:
        return module
    return with_main(module, _Unblocking(request).visit_expr(main))


def _layouts(call: relax.Call) -> dict[str, Layout]:
    """By attribute: that of the data, that of a kernel if there is one, and that of the result."""
    attributes = call.attrs
    names = ("layout",) if operator_name(call) in _POOLINGS else ("data_layout", "kernel_layout")
    texts = {name: str(getattr(attributes, name)) for name in names}
    texts["out_layout"] = str(attributes.out_layout or texts[names[0]])
    return {name: Layout.parse(text) for name, text in texts.items()}


def _is_asked(call: Expression, request: LayoutRequest) -> bool:
    desired = _desired(call, request)
    if desired == "default":
        return False
    shapes = [shape_of(operand) for operand in call.args]
    if any(shape is None or not is_static(shape) for shape in shapes):
        return False
    data, *others = _layouts(call).values()
    return any(layout.is_blocked for layout in (data, *others)) and Layout.parse(desired) != data


def _desired(call: Expression, request: LayoutRequest) -> str:
    """The layout that is asked for the data of a call; "default" where none is."""
    name, entries = operator_name(call), request.desired_layouts or {}
    if name in _POOLINGS or name in _QUANTIZED:
        return next(iter(entries.get(_POOLINGS.get(name) or _QUANTIZED[name], ())), "default")
    if name not in CONVOLUTION_AXES:
        return "default"
    entry = entries.get(name, ())
    if name == "nn.conv2d" and int(call.attrs.groups) > 1:
        entry = entries.get(DEPTHWISE, entry)
    return request.for_all or next(iter(entry), "default")


def _places(layout: Layout) -> list[list[int]]:
    """For each plain dimension the dimensions that it is divided into, the outermost first."""
    return [[place for place, axis in enumerate(layout.axes) if axis.name == name] for name in layout.primal]


@mutator
class _Unblocking(PyExprMutator):
    def __init__(self, request: LayoutRequest) -> None:
        super().__init__()
        self.request = request

    def visit_call_(self, call: relax.Call) -> Expression:
        """A convolution or pooling of plain tensors; other calls only get their new arguments."""
        call = super().visit_call_(call)
        if not _is_asked(call, self.request):
            return call
        layouts = _layouts(call)
        texts = {name: str(layout.primal_layout) for name, layout in layouts.items()}
        *read, out = layouts.values()
        operands = [self._joined(operand, layout) for operand, layout in zip(call.args, read, strict=False)]
        plain = with_attributes(call, [*operands, *call.args[len(read) :]], **texts)
        return self._divided(self.builder_.emit(plain), out, shape_of(call) or ())

    def _joined(self, value: Expression, layout: Layout) -> Expression:
        places, shape = _places(layout), shape_of(value) or ()
        if not layout.is_blocked:
            return value
        moved = self._moved(value, list(chain.from_iterable(places)))
        return self.builder_.emit(
            relax.op.reshape(moved, [prod(shape[place] for place in each) for each in places])
        )

    def _divided(self, value: Expression, layout: Layout, shape: Sequence[int]) -> Expression:
        if not layout.is_blocked:
            return value
        order = list(chain.from_iterable(_places(layout)))
        divided = self.builder_.emit(relax.op.reshape(value, [shape[place] for place in order]))
        return self._moved(divided, [order.index(place) for place in range(len(order))])

    def _moved(self, value: Expression, order: Sequence[int]) -> Expression:
        if list(order) == list(range(len(order))):
            return value
        return self.builder_.emit(as_layout_change(relax.op.permute_dims(value, list(order))))
