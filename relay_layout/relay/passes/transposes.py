"""Transposes that follow one another, as one or none."""

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from relay_layout.ir import Expression, ints, operator_name, rebuild_functions, shape_of, simplify_bindings


def merge_transposes(module: tvm.IRModule) -> tvm.IRModule:
    """Transposes of transposes are taken from the tensor itself; those that leave it as it is are gone."""
    module = relax.transform.Normalize()(module)
    module = rebuild_functions(module, lambda function: _Merger().visit_expr(function))
    return simplify_bindings(module)


@mutator
class _Merger(PyExprMutator):
    def visit_call_(self, call: relax.Call) -> Expression:
        """A transpose of what the one before it is of; other calls only get their new arguments."""
        call = super().visit_call_(call)
        axes = _axes_of(call)
        if axes is None:
            return call
        data = call.args[0]
        earlier = self.lookup_binding(data) if isinstance(data, relax.Var) else None
        inner = _axes_of(earlier)
        if earlier is not None and inner is not None:
            data, axes = earlier.args[0], [inner[axis] for axis in axes]
        if axes == sorted(axes):
            return data
        return call if inner is None else relax.op.permute_dims(data, axes)


def _axes_of(call: Expression | None) -> list[int] | None:
    """Where each dimension of a transpose comes from; None for other calls and open ranks."""
    if call is None or operator_name(call) != "permute_dims":
        return None
    shape = shape_of(call.args[0])
    if shape is None:
        return None
    rank = len(shape)
    if call.attrs.axes is None:
        return list(reversed(range(rank)))
    return [axis % rank for axis in ints(call.attrs.axes)]
