"""Convolutions of blocked tensors as convolutions of plain ones, where other layouts are asked of them.

A layout that divides no axis, or divides it otherwise, is none over the dimensions that a blocked tensor has:
the tensor is first put together to the dimensions that its convolution speaks of.
"""

from collections.abc import Sequence
from itertools import chain
from math import prod

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from relay_layout.ir import (
    Expression,
    bindings_of,
    is_static,
    operator_name,
    shape_of,
    with_attributes,
    with_main,
)
from relay_layout.layout import Layout
from relay_layout.request import LayoutRequest
from relay_layout.targets.convolutions import CONVOLUTION_AXES, DEPTHWISE


def with_plain_convolutions(module: tvm.IRModule, request: LayoutRequest) -> tvm.IRModule:
    """The module with plain convolutions, between transposes and reshapes, in the place of blocked ones that
    the request names another layout for. All stay where it leaves out some by their position.
    """
    main = module["main"]
    asked = any(_is_asked(binding.value, request) for binding in bindings_of(main))
    if request.skip_layers or not asked:
        return module
    return with_main(module, _Unblocking(request).visit_expr(main))


def _layouts(call: relax.Call) -> tuple[Layout, Layout, Layout]:
    """Of data, kernel and result."""
    data, kernel = str(call.attrs.data_layout), str(call.attrs.kernel_layout)
    texts = (data, kernel, str(call.attrs.out_layout or data))
    return Layout.parse(texts[0]), Layout.parse(texts[1]), Layout.parse(texts[2])


def _is_asked(call: Expression, request: LayoutRequest) -> bool:
    name = operator_name(call)
    if name not in CONVOLUTION_AXES or not all(is_static(shape_of(one) or ("",)) for one in call.args):
        return False
    layouts, entries = _layouts(call), request.desired_layouts or {}
    entry = entries.get(name, ())
    if name == "nn.conv2d" and int(call.attrs.groups) > 1:
        entry = entries.get(DEPTHWISE, entry)
    desired = request.for_all or next(iter(entry), "default")
    blocked = any(layout.is_blocked for layout in layouts)
    return blocked and desired != "default" and Layout.parse(desired) != layouts[0]


def _places(layout: Layout) -> list[list[int]]:
    """For each plain dimension the dimensions that it is divided into, the outermost first."""
    return [[place for place, axis in enumerate(layout.axes) if axis.name == name] for name in layout.primal]


@mutator
class _Unblocking(PyExprMutator):
    def __init__(self, request: LayoutRequest) -> None:
        super().__init__()
        self.request = request

    def visit_call_(self, call: relax.Call) -> Expression:
        """A convolution of plain tensors; other calls only get their new arguments."""
        call = super().visit_call_(call)
        if not _is_asked(call, self.request):
            return call
        data, kernel, out = _layouts(call)
        names = ("data_layout", "kernel_layout", "out_layout")
        texts = (str(layout.primal_layout) for layout in (data, kernel, out))
        operands = [self._joined(call.args[0], data), self._joined(call.args[1], kernel)]
        plain = with_attributes(call, operands, **dict(zip(names, texts, strict=True)))
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
        return self.builder_.emit(relax.op.permute_dims(value, list(order)))
