"""Operators as what the caller's callbacks put in their place, and as faster ones that are less exact."""

from typing import Any

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from relay_layout.errors import ModelError
from relay_layout.ir import Expression, dtype_of, operator_name, visit_functions
from relay_layout.relay.expression import as_expression
from relay_layout.relay.operators import TABLE, carried, complete, relay_form
from relay_layout.relay.passes.function_pass import function_pass
from relay_layout.relay.registries.registry import Registry
from relay_layout.relay.syntax import tree
from relay_layout.relay.trees.rebuilding import rebuilt

_FAST = {
    "erf": "fast_erf",
    "exp": "fast_exp",
    "nn.softmax": "nn.fast_softmax",
    "tanh": "fast_tanh",
}


def legalizing(registry: Registry, name: str) -> tvm.transform.Pass:
    """A pass that asks the callbacks of a registry for each call of their operators, operands first."""

    def transform(function: Any, module: tvm.IRModule, context: tvm.transform.PassContext) -> Any:
        return rebuilt(function, lambda part: _legal(part, registry))

    asking = function_pass(transform, opt_level=1, name=name)

    def run(module: tvm.IRModule, context: tvm.transform.PassContext) -> tvm.IRModule:
        # Without callbacks, modules stay as they are, whether they can be written as Relay or not.
        return asking(module) if registry else module

    return tvm.transform.module_pass(run, opt_level=1, name=name)


def _legal(part: tree.Expression, registry: Registry) -> tree.Expression | None:
    if not isinstance(part, tree.Call) or not isinstance(part.op, str) or registry.get(part.op) is None:
        return None
    attributes = complete(part.op, TABLE[part.op].attributes, part.attrs.given)
    types = [operand.checked_type for operand in (*part.args, part)]
    answer = registry.ask(part.op, attributes, list(part.args), types)
    if answer is None:
        return None
    try:
        return as_expression(answer)
    except TypeError:
        raise ModelError(
            f"the {registry.kind} callback for {part.op} returned {type(answer).__name__}, no expression"
        ) from None


def fast_math(module: tvm.IRModule) -> tvm.IRModule:
    """The module with operators on float32 as approximations of them by polynomials, where Relay has such."""
    return visit_functions(_FastMath(module), module)


@mutator
class _FastMath(PyExprMutator):
    def visit_call_(self, call: relax.Call) -> Expression:
        """The faster operator; other calls only get their new arguments."""
        call = super().visit_call_(call)
        if operator_name(call) not in _FAST or dtype_of(call.args[0]) != "float32":
            return call
        form = relay_form(call)
        if form is None:
            return call
        row, exported = form
        fast = TABLE[_FAST[row.name]]
        given = complete(fast.name, fast.attributes, exported.attributes)
        return carried.call(fast, list(call.args), given)
