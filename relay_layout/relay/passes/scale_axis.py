"""Factors along the channels taken into the weights of a convolution beside them."""

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from relay_layout.graph.uses import call_read_once, count_uses
from relay_layout.ir import (
    Expression,
    is_static,
    operator_name,
    out_layout,
    rebuild_functions,
    shape_of,
    simplify_bindings,
    with_attributes,
    with_operands,
)


def fold_scale_axis(module: tvm.IRModule, *, after: bool = True, before: bool = True) -> tvm.IRModule:
    """``conv(x, w) * s`` and ``(conv(x, w) + b) * s`` become ``conv(x, w * s)``, with ``b * s`` added;
    ``conv(x * s, w)`` without groups becomes ``conv(x, w * s)``.

    ``s`` must have one value per channel, or one in all, and the product one reader. Only factors ``after``
    convolutions, or ``before`` them, are taken where the other is False.
    """
    module = relax.transform.Normalize()(module)
    module = rebuild_functions(module, lambda function: _Folder(function, after, before).visit_expr(function))
    return simplify_bindings(module)


@mutator
class _Folder(PyExprMutator):
    def __init__(self, function: relax.Function, after: bool, before: bool) -> None:
        super().__init__()
        self.uses = count_uses(function)
        self.after = after
        self.before = before

    def visit_call_(self, call: relax.Call) -> Expression:
        """Products after a convolution and before one; other calls only get their new arguments."""
        call = super().visit_call_(call)
        name = operator_name(call)
        if name == "multiply" and self.after:
            folded = self._after(call)
            return call if folded is None else folded
        if name == "nn.conv2d" and self.before:
            folded = self._before(call)
            return call if folded is None else folded
        return call

    def _after(self, product: relax.Call) -> Expression | None:
        for data, factor in (product.args, reversed(list(product.args))):
            convolution, addend = call_read_once(data, self.uses, self.lookup_binding), None
            if convolution is not None and operator_name(convolution) == "add":
                inner, addend = convolution.args
                convolution = call_read_once(inner, self.uses, self.lookup_binding)
            if convolution is None or operator_name(convolution) != "nn.conv2d":
                continue
            attributes = convolution.attrs
            out = out_layout(attributes)
            kernel = str(attributes.kernel_layout)
            vector = self._vector(factor, out)
            channels = dict(zip(out, shape_of(data) or (), strict=False)).get("C")
            weight = convolution.args[1]
            outputs = dict(zip(kernel, shape_of(weight) or (), strict=False)).get("O")
            # An addend that broadcasts the convolution would be scaled by what does not fit it.
            fits = addend is None or shape_of(convolution) == shape_of(data)
            if vector is None or not kernel.isupper() or channels != outputs or not fits:
                continue
            scaled = self._scaled(weight, vector, kernel, "O")
            result = with_attributes(convolution, [convolution.args[0], scaled])
            if addend is None:
                return result
            return relax.op.add(
                self.builder_.emit(result), self.builder_.emit(relax.op.multiply(addend, factor))
            )
        return None

    def _before(self, convolution: relax.Call) -> Expression | None:
        attributes = convolution.attrs
        product, weight = (
            call_read_once(convolution.args[0], self.uses, self.lookup_binding),
            convolution.args[1],
        )
        kernel, layout = str(attributes.kernel_layout), str(attributes.data_layout)
        if product is None or operator_name(product) != "multiply" or int(attributes.groups) != 1:
            return None
        for data, factor in (product.args, reversed(list(product.args))):
            vector = self._vector(factor, layout)
            if vector is not None and kernel.isupper() and shape_of(data) == shape_of(product):
                return with_operands(convolution, [data, self._scaled(weight, vector, kernel, "I")])
        return None

    def _vector(self, factor: Expression, layout: str) -> Expression | None:
        """The factor with one dimension, if it varies along the channels of ``layout`` alone."""
        shape = shape_of(factor)
        if shape is None or not is_static(shape) or not layout.isupper() or len(shape) > len(layout):
            return None
        axes = layout[len(layout) - len(shape) :]
        if any(extent != 1 and axis != "C" for axis, extent in zip(axes, shape, strict=True)):
            return None
        return self.builder_.emit(relax.op.reshape(factor, (-1,)))

    def _scaled(self, weight: Expression, vector: Expression, kernel: str, axis: str) -> Expression:
        following = len(kernel) - 1 - kernel.index(axis)
        shaped = relax.op.reshape(vector, (-1, *[1] * following))
        return self.builder_.emit(relax.op.multiply(weight, shaped))
