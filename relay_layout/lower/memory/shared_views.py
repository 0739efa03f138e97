"""Tensors and shapes that the virtual machine makes once for all calls of kernels that take the same.

A tensor is no more than a view of a storage, and tensors that take turns in one are often of one shape. Each
that is made, and each shape for it, is a call of the machine and an object of its own, which takes as long as
a small kernel does.
"""

import math
from collections import defaultdict

import tvm
from tvm import relax
from tvm_ffi import structural_equal, structural_hash, structural_map

from relay_layout.extent_polynomials import provably_equal
from relay_layout.ir import (
    Expression,
    as_extent,
    bindings_of,
    operator_name,
    rebuild_functions,
    with_body,
    with_operands,
)
from relay_layout.lower.memory.operators import POINTED, RESHAPE, TENSOR, is_known
from topi_ext.extents import simplified

_VIEWS = RESHAPE, POINTED, TENSOR


def share_views(module: tvm.IRModule) -> tvm.IRModule:
    """Make each view of a tensor, each tensor within a storage, and each of their shapes that is not known
    only once in a function.

    Expects planned memory, and that nothing says yet when tensors end. What branches make stays theirs.
    """
    return rebuild_functions(module, lambda function: _Shared().rewritten(function))


class _Shared:
    """The bindings of one function without those that repeat others."""

    def __init__(self) -> None:
        self._bindings: list[relax.Binding] = []
        self._instead: dict[relax.Var, relax.Var] = {}
        self._tensors: dict[relax.Var, relax.Call] = {}
        self._known: dict[int, list[tuple[Expression, relax.Var]]] = defaultdict(list)

    def rewritten(self, function: relax.Function) -> relax.Function:
        for binding in bindings_of(function):
            self._add(binding)
        body = relax.SeqExpr([relax.BindingBlock(self._bindings)], self._current(function.body.body))
        return with_body(function, body)

    def _add(self, binding: relax.Binding) -> None:
        value = self._current(binding.value)
        if isinstance(binding, relax.MatchCast):
            self._bindings.append(relax.MatchCast(binding.var, value, binding.ty))
        elif isinstance(value, relax.Var):
            self._instead[binding.var] = value
        elif operator_name(value) in _VIEWS:
            self._add_view(binding.var, value)
        else:
            value = self._with_shared_operands(value) if isinstance(value, relax.Call) else value
            self._bindings.append(relax.VarBinding(binding.var, value))

    def _add_view(self, variable: relax.Var, call: relax.Call) -> None:
        tensor = self._tensors.get(call.args[0]) if operator_name(call) == RESHAPE else None
        if tensor is not None and _same_size(tensor.args[2], call.args[1]):
            call = with_operands(tensor, [*tensor.args[:2], call.args[1], *tensor.args[3:]])
        same = self._variable_of(self._with_shared_operands(call), variable)
        if same is not variable:
            self._instead[variable] = same
        elif operator_name(call) == TENSOR:
            self._tensors[variable] = call

    def _current(self, value: Expression) -> Expression:
        """The value with the variables that there are."""
        return structural_map(value, (relax.Var, lambda variable: self._instead.get(variable, variable)))

    def _with_shared_operands(self, call: relax.Call) -> relax.Call:
        """The call with variables in place of shapes and numbers that only a call of the network tells."""
        return with_operands(call, map(self._operand, call.args))

    def _operand(self, operand: Expression) -> Expression:
        if isinstance(operand, relax.ShapeExpr) and not is_known(operand):
            # Passes write one size in several ways.
            shape = relax.ShapeExpr([simplified(extent) for extent in operand.values])
            return self._variable_of(shape, relax.Var("shape", shape.ty))
        return operand

    def _variable_of(self, value: Expression, variable: relax.Var) -> relax.Var:
        """The variable that is bound to what ``value`` is, which is ``variable`` if none was."""
        alike = self._known[structural_hash(value)]
        for known, other in alike:
            if structural_equal(known, value):
                return other
        alike.append((value, variable))
        self._bindings.append(relax.VarBinding(variable, value))
        return variable


def _same_size(one: Expression, other: Expression) -> bool:
    """Is it known that two shapes are of tensors of equally many elements?"""
    if not (isinstance(one, relax.ShapeExpr) and isinstance(other, relax.ShapeExpr)):
        return False
    left, right = (math.prod(map(as_extent, shape.values)) for shape in (one, other))
    return provably_equal([left], [right])
