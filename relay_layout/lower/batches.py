"""Batches of matrix products in the shape that what is around them has.

Exporters multiply a batch of all heads of all images, and reshape before and after. If operands are reshaped
instead, products and what is between them share their loops.
"""

from typing import Any

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator
from tvm_ffi import structural_equal

from relay_layout.graph.uses import call_read_once, count_uses
from relay_layout.ir import Expression, operator_name, rebuild_functions, shape_of

Shape = list[Any]

_PRODUCT, _SOFTMAX, _VIEW = "matmul", "nn.softmax", "reshape"


def regroup_batches(module: tvm.IRModule) -> tvm.IRModule:
    """Move reshapes of batches alone from products' results to their operands, or from shares to results."""
    return rebuild_functions(module, lambda variable, function: _Regrouping(function).visit_expr(function))


@mutator
class _Regrouping(PyExprMutator):
    def __init__(self, function: relax.Function) -> None:
        super().__init__()
        self.uses = count_uses(function)

    def visit_call_(self, call: relax.Call) -> Expression:
        call = super().visit_call_(call)
        if operator_name(call) == _VIEW:
            return self._of_operands(call)
        return self._of_result(call)

    def _of_operands(self, view: relax.Call) -> Expression:
        made = call_read_once(view.args[0], self.uses, self.lookup_binding)
        old, new = _shape(view.args[0]), _shape(view)
        if made is None or not _is_batched(made) or not _regroups(old, new):
            source = self._source(view)
            return source if structural_equal(_shape(source), new) else view
        operands = [self._view(each, [*new[:-2], *_shape(each)[-2:]]) for each in made.args]
        return relax.Call(made.op, operands, made.attrs, made.ty_args)

    def _of_result(self, product: relax.Call) -> Expression:
        source = self._source(product.args[0])
        if not _is_batched(product) or not _regroups(_shape(product.args[0]), _shape(source)):
            return product
        if not self._are_shares(source):
            # A reshape behind scores would come between them and their softmax.
            return product
        second = self._view(product.args[1], [*_shape(source)[:-2], *_shape(product.args[1])[-2:]])
        found = self.builder_.emit(relax.Call(product.op, [source, second], product.attrs, product.ty_args))
        return relax.op.reshape(found, _shape(product))

    def _are_shares(self, rows: Expression) -> bool:
        """Whether a softmax made ``rows``, or what they were computed from element by element."""
        made = self.lookup_binding(rows) if isinstance(rows, relax.Var) else rows
        if isinstance(made, relax.Var):
            return self._are_shares(made)
        if not isinstance(made, relax.Call):
            return False
        if operator_name(made) == _SOFTMAX:
            return True
        tensors = [each for each in made.args if isinstance(each.ty, relax.TensorType)]
        shape = _shape(rows)
        return any(structural_equal(_shape(each), shape) and self._are_shares(each) for each in tensors)

    def _view(self, operand: Expression, shape: Shape) -> Expression:
        """``operand`` in another shape: a view of what it is a view of, or that itself."""
        source = self._source(operand)
        if structural_equal(_shape(source), shape):
            return source
        return self.builder_.emit(relax.op.reshape(source, shape))

    def _source(self, operand: Expression) -> Expression:
        """What ``operand`` is a view of, through all views in a row; itself where it is none."""
        made = self.lookup_binding(operand) if isinstance(operand, relax.Var) else operand
        if isinstance(made, relax.Var):
            return self._source(made)
        return self._source(made.args[0]) if made is not None and operator_name(made) == _VIEW else operand


def _shape(expression: Expression) -> Shape:
    return list(shape_of(expression) or ())


def _is_batched(product: relax.Call) -> bool:
    """Whether a call is a product both of whose operands have all of the result's batch."""
    if operator_name(product) != _PRODUCT:
        return False
    batch = _shape(product)[:-2]
    return bool(batch) and all(structural_equal(_shape(each)[:-2], batch) for each in product.args)


def _regroups(old: Shape, new: Shape) -> bool:
    """Whether tensors of both shapes are the same matrices, in batches of other axes."""
    if min(len(old), len(new)) < 3 or len(old) == len(new):
        return False
    return structural_equal(old[-2:], new[-2:])


__all__ = ["regroup_batches"]
