"""Attention as one function: two products of activations, and the softmax of each row between them.

Operator by operator the scores of all rows would go to memory and come back several times. The rule
:class:`topi_ext.schedule.cpu.attention.Attention` computes the function by blocks of rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax, tirx
from tvm_ffi import structural_equal

from relay_layout.graph.uses import variables_read
from relay_layout.ir import Constant, Expression, dtype_of, function_attributes, operator_name, shape_of
from relay_layout.lower.patterns import PRIMITIVE

SOFTMAX = "nn.softmax"

_DTYPE = "float32"

_ELEMENTWISE = frozenset(
    (
        "add",
        "clip",
        "divide",
        "isnan",
        "maximum",
        "minimum",
        "multiply",
        "negative",
        "subtract",
        "tanh",
        "where",
    )
)
"""What may be done to scores and shares, element by element."""

_FEWEST_COLUMNS = 4
"""Of scores and of the result: fewer fill no vector."""


def join_attention(module: tvm.IRModule) -> tvm.IRModule:
    """Make a function of its own of each attention in "main", which calls it in the place of the operators.

    Joined are float32 products of activations, of known extents but for the batch, where nothing else reads
    what is between them. Expects operators, not their functions.
    """
    main = module["main"]
    bindings = [binding for block in main.body.blocks for binding in block.bindings]
    if not any(operator_name(binding.value) == SOFTMAX for binding in bindings):
        return module
    builder = relax.BlockBuilder(module)
    search = _Search(bindings, main.body.body)
    found = {variable: found for variable in search.values if (found := search.attention(variable))}
    if not found:
        return module
    blocks = [
        type(block)(
            [
                relax.VarBinding(binding.var, _call(builder, found[binding.var], search.values))
                if binding.var in found
                else binding
                for binding in block.bindings
            ]
        )
        for block in main.body.blocks
    ]
    function = relax.Function(
        list(main.params), relax.SeqExpr(blocks, main.body.body), main.ret_ty, main.is_pure
    )
    updated = builder.get()
    updated.update_func(module.get_global_var("main"), function.with_attrs(function_attributes(main)))
    return relax.transform.DeadCodeElimination()(updated)


@dataclass(frozen=True)
class Group:
    """Variables whose values are computed together, in their order, and what of others these read."""

    members: Sequence[relax.Var]
    inputs: Sequence[Expression]


class _Search:
    """What the variables of a function stand for, and who reads them."""

    def __init__(self, bindings: Sequence[relax.Binding], result: Expression) -> None:
        self.values: dict[relax.Var, Expression] = {binding.var: binding.value for binding in bindings}
        self.order = {variable: place for place, variable in enumerate(self.values)}
        self.reads: dict[relax.Var, int] = {}
        for expression in (*self.values.values(), result):
            for variable in variables_read(expression):
                self.reads[variable] = self.reads.get(variable, 0) + 1

    def attention(self, variable: relax.Var) -> Group | None:
        """The group whose last member is the product ``variable``; None where that is no attention."""
        if not self._is_product(variable):
            return None
        scores = shape_of(self.values[variable].args[0])
        members = [variable]
        waiting = [self.values[variable].args[0]]
        while waiting:
            operand = waiting.pop()
            if operand in members or not self._is_step(operand, scores):
                continue
            members.append(operand)
            if operator_name(self.values[operand]) != "matmul":
                waiting += variables_read(self.values[operand])
        members.sort(key=self.order.__getitem__)
        names = [operator_name(self.values[member]) for member in members]
        if (names[0], names.count("matmul"), names.count(SOFTMAX)) != ("matmul", 2, 1):
            return None
        if any(dtype_of(member) not in (_DTYPE, "bool") for member in members):
            return None
        read = [each for member in members for each in variables_read(self.values[member])]
        if any(read.count(member) != self.reads[member] for member in members[:-1]):
            return None
        group = Group(members, self._inputs(members))
        return group if _has_kernel(self.values[members[0]], self.values[variable], group.inputs) else None

    def _is_product(self, variable: Expression) -> bool:
        value = self.values.get(variable) if isinstance(variable, relax.Var) else None
        if value is None or operator_name(value) != "matmul" or dtype_of(variable) != _DTYPE:
            return False
        return all(
            isinstance(operand, relax.Var) and len(shape_of(operand) or ()) >= 2 for operand in value.args
        )

    def _is_step(self, operand: Expression, scores: Any) -> bool:
        """Whether an operand is of the shape of the scores, and made of them or the scores themselves."""
        value = self.values.get(operand) if isinstance(operand, relax.Var) else None
        if value is None or not _same_shape(shape_of(operand), scores):
            return False
        name = operator_name(value)
        if name == SOFTMAX:
            return int(value.attrs.axis) in (-1, len(scores) - 1)
        return name in _ELEMENTWISE or (name == "matmul" and self._is_product(operand))

    def _inputs(self, members: Sequence[relax.Var]) -> list[Expression]:
        """What the members read of others, each once."""
        inputs: list[Expression] = []
        for member in members:
            for operand in self.values[member].args:
                known = isinstance(operand, relax.Var | Constant) and operand not in members
                if known and not any(operand.same_as(other) for other in inputs):
                    inputs.append(operand)
        return inputs


def _same_shape(left: Any, right: Any) -> bool:
    return left is not None and right is not None and structural_equal(list(left), list(right))


def _has_kernel(first: relax.Call, second: relax.Call, inputs: Sequence[Expression]) -> bool:
    """Whether rows, columns and depths are known, and each other extent is one of an input's."""
    shapes = [shape_of(operand) or () for call in (first, second) for operand in call.args]
    matrices = [extent for shape in shapes for extent in shape[-2:]]
    if not all(isinstance(extent, int) for extent in matrices):
        return False
    if min(shapes[1][-1], shapes[3][-1]) < _FEWEST_COLUMNS:
        return False
    extents = [extent for operand in inputs for extent in shape_of(operand) or ()]
    return all(isinstance(extent, int | tirx.Var) for extent in extents)


def _call(builder: relax.BlockBuilder, group: Group, values: Mapping[relax.Var, Expression]) -> relax.Call:
    """The call of a new function that computes the group."""
    parameters = [relax.Var(f"p{place}", operand.ty) for place, operand in enumerate(group.inputs)]
    own = relax.BlockBuilder()
    with own.function("attention", parameters, attrs={PRIMITIVE: 1}, private=True):
        with own.dataflow():
            made: dict[relax.Var, Expression] = {}

            def given(operand: Expression) -> Expression:
                place = next((at for at, one in enumerate(group.inputs) if operand.same_as(one)), None)
                if place is not None:
                    return parameters[place]
                return made.get(operand, operand) if isinstance(operand, relax.Var) else operand

            for member in group.members[:-1]:
                made[member] = own.emit(_with_operands(values[member], given))
            last = own.emit_output(_with_operands(values[group.members[-1]], given))
        own.emit_func_output(last)
    function = relax.utils.copy_with_new_vars(own.get()["attention"])
    return relax.Call(builder.add_func(function, "attention"), list(group.inputs), ty_args=None)


def _with_operands(call: relax.Call, given: Any) -> relax.Call:
    return relax.Call(call.op, [given(operand) for operand in call.args], call.attrs, call.ty_args)


__all__ = ["join_attention"]
