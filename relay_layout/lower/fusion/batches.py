"""Batches of matrix products in the shape that what is around them has.

Exporters multiply a batch of all heads of all images, and reshape before and after. If operands are reshaped
instead, products and what is between them share their loops.
"""

from collections.abc import Callable
from typing import Any

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator
from tvm_ffi import structural_equal

from relay_layout.graph.uses import call_read_once, count_uses
from relay_layout.ir import (
    Constant,
    Expression,
    constant,
    constant_array,
    operator_name,
    rebuild_functions,
    shape_of,
    with_operands,
)

Shape = list[Any]

PRODUCT, SOFTMAX = "matmul", "nn.softmax"

_VIEW = "reshape"

ARITHMETIC = frozenset(("add", "divide", "maximum", "minimum", "multiply", "subtract"))
"""Operators between scores and softmax, such as of a bias for each head or of a mask for each window."""


def regroup_batches(module: tvm.IRModule) -> tvm.IRModule:
    """Move reshapes of batches alone from scores to products' operands, or from shares to results."""
    return rebuild_functions(module, lambda function: _Regrouping(function).visit_expr(function))


@mutator
class _Regrouping(PyExprMutator):
    def __init__(self, function: relax.Function) -> None:
        super().__init__()
        self.uses = count_uses(function)

    def visit_call_(self, call: relax.Call) -> Expression:
        call = super().visit_call_(call)
        if operator_name(call) == _VIEW:
            return self._of_operands(call)
        if _is_softmax(call):
            return self._of_scores(call)
        level = self._levelled(call)
        if level is None:
            return self._of_result(call)
        return relax.op.reshape(self.builder_.emit(self._of_result(level)), _shape(call))

    def _levelled(self, product: relax.Call) -> relax.Call | None:
        """A product without leading ones that one operand alone has; None for others."""
        if operator_name(product) != PRODUCT:
            return None
        ranks = [len(_shape(operand)) for operand in product.args]
        least = min(ranks)
        if least < 3 or ranks[0] == ranks[1] or set(_shape(product)[:-least]) != {1}:
            return None
        operands = [self._view(operand, _shape(operand)[-least:]) for operand in product.args]
        found: relax.Call = self.builder_.normalize(with_operands(product, operands))
        return found

    def _of_operands(self, view: relax.Call) -> Expression:
        made = call_read_once(view.args[0], self.uses, self.lookup_binding)
        old, new = _shape(view.args[0]), _shape(view)
        if made is not None and _regroups(old, new):
            operands = self._regrouped(made, old, new)
            if operands is not None:
                return with_operands(made, operands)
        source = self._source(view)
        return source if structural_equal(_shape(source), new) else view

    def _regrouped(self, made: relax.Call, old: Shape, new: Shape) -> list[Expression] | None:
        """What a product, or scores, are computed from in the batches of ``new``; None for other calls."""
        if _is_batched(made):
            return [self._view(each, [*new[:-2], *_shape(each)[-2:]]) for each in made.args]
        if operator_name(made) not in ARITHMETIC or not self._follows(made, _is_batched):
            return None
        # Of what is the same for a part of the batch, the other extents are one, and may be left out.
        kept = _shared(old, new)
        wanted: list[Shape] = []
        for shape in map(_shape, made.args):
            if structural_equal(shape, old):
                wanted.append(new)
            elif set(shape[:-kept]) <= {1}:
                wanted.append(shape[-kept:])
            else:
                return None
        return [self._view(each, shape) for each, shape in zip(made.args, wanted, strict=True)]

    def _of_scores(self, softmax: relax.Call) -> Expression:
        """Shares in the batches that scores have before they are reshaped."""
        (rows,) = softmax.args
        source = self._source(rows)
        along_rows = int(softmax.attrs.axis) in (-1, len(_shape(rows)) - 1)
        if not along_rows or not _regroups(_shape(rows), _shape(source)):
            return softmax
        if not self._follows(source, _is_batched):
            return softmax
        return relax.op.reshape(self.builder_.emit(relax.op.nn.softmax(source, -1)), _shape(rows))

    def _of_result(self, product: relax.Call) -> Expression:
        source = self._source(product.args[0])
        if not _is_batched(product) or not _regroups(_shape(product.args[0]), _shape(source)):
            return product
        if not self._follows(source, _is_softmax):
            # A reshape behind scores would come between them and their softmax.
            return product
        second = self._view(product.args[1], [*_shape(source)[:-2], *_shape(product.args[1])[-2:]])
        found = self.builder_.emit(with_operands(product, [source, second]))
        return relax.op.reshape(found, _shape(product))

    def _follows(self, tensor: Expression, wanted: Callable[[relax.Call], bool]) -> bool:
        """Whether a call like that made ``tensor``, or what it was computed from element by element."""
        shape = _shape(tensor)
        waiting = [tensor]
        seen: set[Expression] = set()
        while waiting:
            made = self._made(waiting.pop())
            if not isinstance(made, relax.Call) or made in seen:
                continue
            if wanted(made):
                return True
            seen.add(made)
            if operator_name(made) != _VIEW:
                tensors = [each for each in made.args if isinstance(each.ty, relax.TensorType)]
                waiting += [each for each in tensors if structural_equal(_shape(each), shape)]
        return False

    def _view(self, operand: Expression, shape: Shape) -> Expression:
        """``operand`` in another shape: a view of what it is a view of, or that itself."""
        source = self._source(operand)
        if structural_equal(_shape(source), shape):
            return source
        if isinstance(source, Constant):
            return constant(constant_array(source).reshape(shape))
        view = self.builder_.normalize(relax.op.reshape(source, shape))
        return self.builder_.emit(self._of_operands(view))

    def _source(self, operand: Expression) -> Expression:
        """What ``operand`` is a view of, through all views in a row; itself where it is none."""
        made = self._made(operand)
        return self._source(made.args[0]) if made is not None and operator_name(made) == _VIEW else operand

    def _made(self, operand: Expression | None) -> Expression | None:
        """The value of ``operand``, which names may stand for; None for a parameter."""
        while isinstance(operand, relax.Var):
            operand = self.lookup_binding(operand)
        return operand


def _shape(expression: Expression) -> Shape:
    return list(shape_of(expression) or ())


def _is_batched(product: relax.Call) -> bool:
    """Whether a call is a product both of whose operands have all of the result's batch."""
    if operator_name(product) != PRODUCT:
        return False
    batch = _shape(product)[:-2]
    return bool(batch) and all(structural_equal(_shape(each)[:-2], batch) for each in product.args)


def _is_softmax(call: relax.Call) -> bool:
    return operator_name(call) == SOFTMAX


def _regroups(old: Shape, new: Shape) -> bool:
    """Whether tensors of both shapes are the same matrices, in batches of other axes."""
    if min(len(old), len(new)) < 3 or len(old) == len(new):
        return False
    return structural_equal(old[-2:], new[-2:])


def _shared(old: Shape, new: Shape) -> int:
    """How many extents both end with."""
    pairs = zip(reversed(old), reversed(new), strict=False)
    return [*(structural_equal(*pair) for pair in pairs), False].index(False)
