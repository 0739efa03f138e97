"""Attention as one function: two products of activations, and the softmax of each row between them.

Operator by operator the scores of all rows would go to memory and come back several times. The rule
:class:`topi_ext.schedule.cpu.attention.Attention` computes the function by blocks of rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax, tirx

from relay_layout.graph.uses import variables_read
from relay_layout.ir import (
    Constant,
    Expression,
    Extent,
    bindings_of,
    dtype_of,
    is_static,
    operator_name,
    same_extent,
    same_extents,
    shape_of,
    simplify_bindings,
    with_new_variables,
    with_operands,
    with_values,
)
from relay_layout.lower.fusion.batches import ARITHMETIC, PRODUCT, SOFTMAX, regroup_batches
from relay_layout.lower.fusion.patterns import PRIMITIVE
from topi_ext.schedule.cpu.loops import LEAST_VECTOR

_DTYPE = "float32"

_BESIDE = ("bool", "int8")
"""Types of what is found out about scores, such as whether there are any."""

_WITH_NUMBERS = ARITHMETIC | {"equal", "not_equal"}
"""Operators of two operands, of which constant numbers become part of the function."""

_ELEMENTWISE = _WITH_NUMBERS | frozenset(
    ("astype", "clip", "full_like", "isnan", "logical_not", "negative", "tanh", "where")
)
"""What may be done to scores and shares, element by element."""

_OF_ROWS = frozenset(("max", "min", "sum"))
"""What may be found of each row."""


def join_attention(module: tvm.IRModule) -> tvm.IRModule:
    """Make a function of its own of each attention in "main", which calls it in the place of the operators.

    Joined are float32 products of activations where nothing else reads what is between them. Of a row all
    extents are known, or as many as there are rows. Expects operators, not their functions.
    """
    main = module["main"]
    bindings = bindings_of(main)
    if not any(operator_name(binding.value) == SOFTMAX for binding in bindings):
        return module
    module = simplify_bindings(regroup_batches(module))
    main = module["main"]
    bindings = bindings_of(main)
    builder = relax.BlockBuilder(module)
    search = _Search(bindings, main.body.body)
    found = {variable: group for variable in search.values if (group := search.attention(variable))}
    if not found:
        return module
    calls = {variable: _call(builder, group, search.values) for variable, group in found.items()}
    updated = builder.get()
    updated.update_func(module.get_global_var("main"), with_values(main, calls))
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
        last = self.values[variable]
        members = self._members(last.args[0])
        # Rows are computed once for each batch, so that each batch of values has to have its own.
        batches = [(shape_of(one) or ())[:-2] for one in (last.args[0], variable)]
        if not members or not _same_shape(*batches):
            return None
        members.append(variable)
        if [operator_name(self.values[member]) for member in members].count(SOFTMAX) != 1:
            return None
        if any(dtype_of(member) not in (_DTYPE, *_BESIDE) for member in members):
            return None
        read = [each for member in members for each in variables_read(self.values[member])]
        if any(read.count(member) != self.reads[member] for member in members[:-1]):
            return None
        return Group(members, self._inputs(members)) if _has_kernel(self.values[members[0]], last) else None

    def _members(self, shares: Expression) -> list[relax.Var]:
        """A product and what is made of it on the way to ``shares``, in order; empty where there is none."""
        shape = shape_of(shares)
        steps: set[relax.Var] = set()
        waiting = [shares]
        while waiting:
            operand = waiting.pop()
            if operand in steps or not self._is_step(operand, shape):
                continue
            steps.add(operand)
            if operator_name(self.values[operand]) != PRODUCT:
                waiting += variables_read(self.values[operand])
        members: list[relax.Var] = []
        ordered = sorted(steps, key=self.order.__getitem__)
        products = [step for step in ordered if operator_name(self.values[step]) == PRODUCT]
        for step in ordered:
            # Of several products the last one; others are operands, as are masks.
            if step in products[-1:] or any(each in members for each in variables_read(self.values[step])):
                members.append(step)
        return members if shares in members else []

    def _is_product(self, variable: Expression) -> bool:
        value = self.values.get(variable) if isinstance(variable, relax.Var) else None
        if value is None or operator_name(value) != PRODUCT or dtype_of(variable) != _DTYPE:
            return False
        return all(
            isinstance(operand, relax.Var) and len(shape_of(operand) or ()) >= 2 for operand in value.args
        )

    def _is_step(self, operand: Expression, scores: Any) -> bool:
        """Whether an operand has an element for each of the scores or of their rows, by a known operator."""
        value = self.values.get(operand) if isinstance(operand, relax.Var) else None
        if value is None or not scores:
            return False
        name, shape = operator_name(value), shape_of(operand)
        of_row = _same_shape(shape, (*scores[:-1], 1))
        if not of_row and not _same_shape(shape, scores):
            return False
        if name in _OF_ROWS:
            axes = value.attrs.axis
            return (
                of_row
                and axes is not None
                and [int(axis) % len(scores) for axis in axes] == [len(scores) - 1]
            )
        if name == SOFTMAX:
            return not of_row and int(value.attrs.axis) in (-1, len(scores) - 1)
        return name in _ELEMENTWISE or (name == PRODUCT and not of_row and self._is_product(operand))

    def _inputs(self, members: Sequence[relax.Var]) -> list[Expression]:
        """What the members read of others, each once."""
        inputs: list[Expression] = []
        for member in members:
            has_numbers = operator_name(self.values[member]) in _WITH_NUMBERS
            for operand in self.values[member].args:
                if has_numbers and isinstance(operand, Constant) and shape_of(operand) == ():
                    continue
                known = isinstance(operand, relax.Var | Constant) and operand not in members
                if known and not any(operand.same_as(other) for other in inputs):
                    inputs.append(operand)
        return inputs


def _same_shape(left: Any, right: Any) -> bool:
    return left is not None and right is not None and same_extents(left, right)


def _has_kernel(first: relax.Call, second: relax.Call) -> bool:
    """Whether depths and columns are known, and rows and scores as well, or as many as each other.

    Of an unknown number of rows by another number of scores, few rows have kernels of their own.
    """
    shapes = [shape_of(operand) or () for call in (first, second) for operand in call.args]
    rows, scores = shapes[0][-2], shapes[1][-1]
    depth, columns = shapes[0][-1], shapes[3][-1]
    if not is_static((depth, columns)) or columns < LEAST_VECTOR:
        return False
    if is_static((rows, scores)):
        return bool(scores >= LEAST_VECTOR)
    return same_extent(rows, scores)


class _Names:
    """Variables for extents that are computed of others, which a function is not told."""

    def __init__(self) -> None:
        self._known: list[tuple[Any, tirx.Var]] = []

    def named(self, tensor: Expression) -> relax.TensorType:
        """The type of a tensor whose extents are numbers and variables."""
        return relax.TensorType([self._name(extent) for extent in shape_of(tensor) or ()], dtype_of(tensor))

    def _name(self, extent: Extent) -> Extent:
        if isinstance(extent, int | tirx.Var):
            return extent
        for known, name in self._known:
            if same_extent(known, extent):
                return name
        name = tirx.Var(f"extent_{len(self._known)}", "int64")
        self._known.append((extent, name))
        return name


def _call(builder: relax.BlockBuilder, group: Group, values: Mapping[relax.Var, Expression]) -> relax.Call:
    """The call of a new function that computes the group."""
    names = _Names()
    parameters = [relax.Var(f"p{place}", names.named(operand)) for place, operand in enumerate(group.inputs)]
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
    function = with_new_variables(own.get()["attention"])
    return relax.Call(builder.add_func(function, "attention"), list(group.inputs), ty_args=None)


def _with_operands(call: relax.Call, given: Any) -> relax.Call:
    return with_operands(call, [given(operand) for operand in call.args])
