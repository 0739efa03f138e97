"""One order for the scalars that functions of loops are given, so that a model is compiled to the same bytes.

TVM collects the symbols that no tensor's extent gives a function in sets whose order is that of addresses, in
``BlockBuilder.call_te`` and ``FuseTIR``: functions that compute the same differ by it, and so would two
compilations of one model.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import tvm
from tvm import relax, tirx
from tvm.relax.expr_functor import PyExprMutator, mutator
from tvm.tirx.buffer import is_buffer_var

from relay_layout.ir import (
    function_attributes,
    relax_functions,
    visit_functions,
    with_attributes,
    with_functions,
    without_functions,
)
from relay_layout.lower.fusion.function_calls import is_function_call
from topi_ext.ir import nodes_of

Functions = dict[tvm.ir.GlobalVar, tirx.PrimFunc]


def order_scalars(module: tvm.IRModule) -> tvm.IRModule:
    """The module whose functions of loops take scalars in the order in which they use them first.

    Functions that have a symbol, or are not only called by ``call_tir``, stay as they are.
    """
    orders = {
        variable: order
        for variable, function in _functions_of_loops(module).items()
        if (order := _order(function)) != sorted(order)
    }
    if not orders:
        return module
    changed = visit_functions(_InOrder(module, orders), module)
    functions = {
        variable: _with_parameters(function, orders[variable]) if variable in orders else function
        for variable, function in changed.functions_items()
    }
    return with_functions(changed, functions)


def merge_alike(module: tvm.IRModule) -> tvm.IRModule:
    """The module with one function of loops of those that are alike, numbered in the order of their calls.

    To be run after :func:`order_scalars`; modules whose functions take no scalars have no such functions, as
    the builders that added them have seen to that.
    """
    loops = _functions_of_loops(module)
    if not any(map(_scalars, loops.values())):
        return module
    rest = without_functions(module, loops)
    return visit_functions(_Added(rest, loops), rest)


def _functions_of_loops(module: tvm.IRModule) -> Functions:
    """Those that nothing knows but calls by ``call_tir``."""
    others = set(_known_otherwise(module))
    return {
        variable: function
        for variable, function in module.functions_items()
        if isinstance(function, tirx.PrimFunc) and variable not in others
    }


def _known_otherwise(module: tvm.IRModule) -> Iterator[tvm.ir.GlobalVar]:
    for variable, function in module.functions_items():
        if "global_symbol" in function_attributes(function):
            yield variable
    for caller in relax_functions(module).values():
        for call in nodes_of(caller, relax.Call):
            named = call.args[1:] if is_function_call(call) else [call.op, *call.args]
            yield from (each for each in named if isinstance(each, tvm.ir.GlobalVar))


def _scalars(function: tirx.PrimFunc) -> list[int]:
    """Where the parameters are that are no tensors."""
    return [place for place, each in enumerate(function.params) if not is_buffer_var(each)]


def _order(function: tirx.PrimFunc) -> list[int]:
    """The present place of each parameter, in the order that they are to have."""
    places, order = _scalars(function), list(range(len(function.params)))
    if len(places) > 1:
        used = _used(function)
        by_use = sorted(places, key=lambda place: used.index(function.params[place]))
        for place, before in zip(places, by_use, strict=True):
            order[place] = before
    return order


def _used(function: tirx.PrimFunc) -> list[Any]:
    """The variables of a function in the order of their uses, in shapes first; parameters end the list."""
    shapes = [each.shape for each in function.params if is_buffer_var(each)]
    found = [variable for shape in shapes for variable in nodes_of(shape, tirx.Var)]
    return [*found, *nodes_of(function.body, tirx.Var), *function.params]


def _with_parameters(function: tirx.PrimFunc, order: Sequence[int]) -> tirx.PrimFunc:
    parameters = [function.params[place] for place in order]
    return tirx.PrimFunc(parameters, function.body, function.ret_type, function.attrs)


def _with(call: relax.Call, function: tvm.ir.GlobalVar, arguments: Sequence[Any]) -> relax.Call:
    """The call, of another function and with other arguments."""
    operands = [function, relax.Tuple(arguments), *call.args[2:]]
    return with_attributes(call, operands)


@mutator
class _InOrder(PyExprMutator):
    """Gives functions their arguments in the order of their parameters."""

    def __init__(self, module: tvm.IRModule, orders: dict[tvm.ir.GlobalVar, list[int]]) -> None:
        super().__init__(module)
        self._orders = orders

    def visit_call_(self, call: relax.Call) -> Any:
        call = super().visit_call_(call)
        if not is_function_call(call) or call.args[0] not in self._orders:
            return call
        function, arguments = call.args[:2]
        # Parameters for results end the order.
        order = self._orders[function][: len(arguments)]
        return _with(call, function, [arguments[place] for place in order])


@mutator
class _Added(PyExprMutator):
    """Adds functions to its builder's module as they are called; the builder keeps one of those alike."""

    def __init__(self, module: tvm.IRModule, loops: Functions) -> None:
        super().__init__(module)
        self._loops = loops
        self._names = {str(variable.name_hint) for variable in loops}

    def visit_call_(self, call: relax.Call) -> Any:
        call = super().visit_call_(call)
        if not is_function_call(call) or call.args[0] not in self._loops:
            return call
        variable = call.args[0]
        function = self.builder_.add_func(self._loops[variable], self._unnumbered(str(variable.name_hint)))
        return _with(call, function, list(call.args[1]))

    def _unnumbered(self, name: str) -> str:
        """The name without the number that a builder gave it: one whose rest is a name, too."""
        digits = len(name) - len(name.rstrip("0123456789"))
        shorter = (name[: len(name) - count] for count in range(digits, 0, -1))
        return next((each for each in shorter if each in self._names), name)
