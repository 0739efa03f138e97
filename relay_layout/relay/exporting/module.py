"""Relax modules to Relay's syntax tree, for printing as Relay text."""

from functools import lru_cache
from typing import Any

import numpy as np
import tvm
from tvm import relax

from relay_layout.errors import ModelError
from relay_layout.ir import Constant, Expression, constant_array, relax_functions
from relay_layout.relay.exporting.layout_names import named_transforms
from relay_layout.relay.exporting.norms import norm_written_out
from relay_layout.relay.importing.types import to_relay
from relay_layout.relay.operators import changed, relay_form
from relay_layout.relay.syntax import tree


def to_tree(module: tvm.IRModule) -> tree.Module:
    """The Relay module of a Relax module whose operators Relay has.

    ModelError names the first binding that has no form in Relay.
    """
    functions = {
        str(variable.name_hint): _Exporter(str(variable.name_hint)).run(function)
        for variable, function in relax_functions(module).items()
    }
    return tree.Module(functions, {"version": "0.0.5"})


def function_to_tree(function: relax.Function) -> tree.Function:
    """One function, which messages call main; see :func:`to_tree`."""
    return _Exporter("main").run(function)


def body_to_tree(body: relax.SeqExpr) -> tree.Expression:
    """The body of a function; the function's parameters are free variables of it."""
    exporter = _Exporter("main")
    for parameter in relax.analysis.free_vars(body):
        exporter.parameter(parameter)
    return exporter.sequence(body)


class _Exporter:
    def __init__(self, name: str) -> None:
        self.name = name
        self.values: dict[relax.Var, tree.Expression] = {}
        self.constants: dict[int, tree.Constant] = {}
        self.turned: dict[tree.Constant, tree.Constant] = {}

    def run(self, function: relax.Function) -> tree.Function:
        parameters = [self.parameter(parameter) for parameter in function.params]
        body = self.sequence(function.body)
        result = function.body.body if isinstance(function.body, relax.SeqExpr) else function.body
        return tree.Function(tuple(parameters), body, to_relay(result.ty, f"the result of {self.name}"))

    def parameter(self, parameter: relax.Var) -> tree.Var:
        self.values[parameter] = variable = _variable(parameter)
        return variable

    def sequence(self, body: Expression) -> tree.Expression:
        if not isinstance(body, relax.SeqExpr):
            return self._expression(body)
        bindings = [binding for block in body.blocks for binding in block.bindings]
        names = named_transforms(bindings)
        for binding in bindings:
            self.values[binding.var] = self._bound(binding, names.get(binding.var))
        return self._expression(body.body)

    def _bound(self, binding: Any, layouts: tuple[str, str] | None) -> tree.Expression:
        """What a binding has, which is a transform where ``layouts`` are told."""
        value = binding.value
        try:
            if layouts is not None:
                attributes = dict(zip(("src_layout", "dst_layout"), layouts, strict=True))
                return tree.Call("layout_transform", (self._expression(value.args[0]),), attributes)
            if isinstance(value, relax.If):
                return tree.If(
                    self._expression(value.cond),
                    self.sequence(value.true_branch),
                    self.sequence(value.false_branch),
                )
            if isinstance(value, relax.Call) and isinstance(value.op, tvm.ir.Op):
                return self._call(value)
            return self._expression(value)
        except ModelError as error:
            raise ModelError(f"{self.name}, binding {binding.var.name}: {error}") from None

    def _call(self, call: relax.Call) -> tree.Expression:
        form = relay_form(call)
        if form is None:
            written = norm_written_out(call, self._expression)
            if written is None:
                raise ModelError(f"{call.op.name} has no form in Relay" + _operand_note(call))
            return written
        row, exported = form
        operands = tuple(self._operand(operand) for operand in exported.operands)
        return self._recognised(tree.Call(row.name, operands, changed(row.attributes, exported.attributes)))

    def _recognised(self, call: tree.Call) -> tree.Call:
        """nn.dense, which is a product with a transposed weight in Relax, or with a constant matrix."""
        if call.op != "nn.matmul" or call.attrs.given.keys() & {"transpose_a", "transpose_b"}:
            return call
        data, weight = call.args
        if isinstance(weight, tree.Call) and weight.op == "transpose" and weight.attrs["axes"] == (1, 0):
            (weight,) = weight.args
        elif isinstance(weight, tree.Constant) and weight.data.ndim == 2:
            weight = self._turned(weight)
        else:
            return call
        return tree.Call("nn.dense", (data, weight), {"units": None, **call.attrs.given})

    def _turned(self, matrix: tree.Constant) -> tree.Constant:
        """The transposed matrix, one constant however often it is read."""
        if matrix not in self.turned:
            self.turned[matrix] = tree.Constant(np.ascontiguousarray(matrix.data.T))
        return self.turned[matrix]

    def _operand(self, operand: Expression | np.ndarray) -> tree.Expression:
        return tree.Constant(operand) if isinstance(operand, np.ndarray) else self._expression(operand)

    def _expression(self, expression: Expression) -> tree.Expression:
        if isinstance(expression, relax.Var):
            return self.values[expression]
        if isinstance(expression, Constant):
            key = expression.__chandle__()
            if key not in self.constants:
                self.constants[key] = tree.Constant(constant_array(expression))
            return self.constants[key]
        if isinstance(expression, relax.Tuple):
            return tree.Tuple(tuple(self._expression(entry) for entry in expression.fields))
        if isinstance(expression, relax.TupleGetItem):
            return tree.TupleGetItem(self._expression(expression.tuple_value), int(expression.index))
        raise ModelError(f"{type(expression).__name__} has no form in Relay")


@lru_cache(maxsize=4096)
def _variable(parameter: relax.Var) -> tree.Var:
    """A parameter as Relay has it: one variable however often its function is read, since scripts join what
    they found in one reading with the body of another.
    """
    return tree.Var(str(parameter.name), to_relay(parameter.ty, f"parameter {parameter.name}"))


def _operand_note(call: relax.Call) -> str:
    types = [argument.ty for argument in call.args if isinstance(argument.ty, relax.TensorType)]
    return f" on {', '.join(str(kind) for kind in types)}" if types else ""
