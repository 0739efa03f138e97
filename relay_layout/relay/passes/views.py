"""Transposes and reshapes that follow one another, as one or none."""

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from relay_layout.ir import (
    Expression,
    ints,
    is_static,
    operator_name,
    rebuild_functions,
    shape_of,
    simplify_bindings,
)


def merge_views(module: tvm.IRModule) -> tvm.IRModule:
    """Transposes of transposes are taken from the tensor itself, and reshapes of reshapes.

    Those that leave it as it is are gone.
    """
    module = relax.transform.Normalize()(module)
    module = rebuild_functions(module, lambda function: _Merger().visit_expr(function))
    return simplify_bindings(module)


@mutator
class _Merger(PyExprMutator):
    def visit_call_(self, call: relax.Call) -> Expression:
        """A view of a view becomes one of the viewed tensor; other calls only get their new arguments."""
        call = super().visit_call_(call)
        name = operator_name(call)
        if name not in ("permute_dims", "reshape"):
            return call
        data = call.args[0]
        earlier = self.lookup_binding(data) if isinstance(data, relax.Var) else None
        if earlier is not None and operator_name(earlier) != name:
            earlier = None
        return _reshaped(call, earlier) if name == "reshape" else _transposed(call, earlier)


def _reshaped(call: relax.Call, earlier: relax.Call | None) -> Expression:
    """A reshape to a known shape, of the tensor that the ``earlier`` view is of."""
    shape = shape_of(call)
    if shape is None or not is_static(shape):
        return call
    data = call.args[0] if earlier is None else earlier.args[0]
    held = shape_of(data)
    if held is not None and is_static(held) and tuple(held) == tuple(shape):
        return data
    return call if earlier is None else relax.op.reshape(data, [*shape])


def _transposed(call: relax.Call, earlier: relax.Call | None) -> Expression:
    axes = _axes_of(call)
    if axes is None:
        return call
    inner = _axes_of(earlier)
    data = call.args[0]
    if earlier is not None and inner is not None:
        data, axes = earlier.args[0], [inner[axis] for axis in axes]
    if axes == sorted(axes):
        return data
    return call if inner is None else relax.op.permute_dims(data, axes)


def _axes_of(call: relax.Call | None) -> list[int] | None:
    """Where each dimension of a transpose comes from; None for open ranks."""
    shape = None if call is None else shape_of(call.args[0])
    if call is None or shape is None:
        return None
    rank = len(shape)
    if call.attrs.axes is None:
        return list(reversed(range(rank)))
    return [axis % rank for axis in ints(call.attrs.axes)]
