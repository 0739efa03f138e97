"""Normalisation and dropout as they are at inference."""

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from relay_layout.ir import Expression, operator_name, rebuild_functions, shape_of, simplify_bindings
from relay_layout.relay.operators.operator import along, scalar_like


def simplify_inference(module: tvm.IRModule) -> tvm.IRModule:
    """Batch norm becomes a multiply and an add along its axis, dropout nothing."""
    module = relax.transform.Normalize()(module)
    module = rebuild_functions(module, lambda function: _Inference().visit_expr(function))
    return simplify_bindings(module)


@mutator
class _Inference(PyExprMutator):
    def visit_call_(self, call: relax.Call) -> Expression:
        """Batch norm and dropout to what they compute; other calls only get their new arguments."""
        call = super().visit_call_(call)
        name = operator_name(call)
        if name == "nn.dropout":
            return relax.Tuple([call.args[0], call.args[0]])
        if name != "nn.batch_norm" or bool(call.attrs.training):
            return call
        data, gamma, beta, mean, variance = call.args
        rank, axis = len(shape_of(data) or ()), int(call.attrs.axis)
        epsilon = scalar_like(float(call.attrs.epsilon), variance)
        scale = relax.op.rsqrt(relax.op.add(variance, epsilon))
        if bool(call.attrs.scale):
            scale = relax.op.multiply(gamma, scale)
        scale = self.builder_.emit(scale)
        shift = relax.op.negative(relax.op.multiply(mean, scale))
        if bool(call.attrs.center):
            shift = relax.op.add(shift, beta)
        scaled = relax.op.multiply(data, along(scale, axis, rank))
        result = self.builder_.emit(relax.op.add(scaled, along(shift, axis, rank)))
        return relax.Tuple([result, mean, variance])
