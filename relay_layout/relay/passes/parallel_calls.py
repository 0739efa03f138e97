"""Calls that read the same data as one call, whose result is cut into theirs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator
from tvm_ffi import structural_equal

from relay_layout.graph.uses import variables_read
from relay_layout.ir import Emit, Expression, operator_name, rebuild_functions, simplify_bindings
from relay_layout.ops.table import TABLE
from relay_layout.relay.passes.joining import Bound, Joining, Root

Branch = list[relax.VarBinding]
"""A root, and the elementwise calls behind it, each of which is all that reads the one before."""

_ELEMENTWISE = TABLE["add"]
"""The rule that calls behind a root have, those that broadcast their operands as well."""


def combine_parallel(module: tvm.IRModule, joining: Joining, least: int) -> tvm.IRModule:
    """The module with roots of one data as one call, where ``joining`` can join at least ``least`` of them.

    Elementwise calls that all have behind them are joined as well, as long as they are alike.
    """
    # Second names for variables hide what reads them.
    module = relax.transform.CanonicalizeBindings()(relax.transform.Normalize()(module))
    module = relax.transform.ConvertToDataflow(1)(module)
    module = rebuild_functions(
        module, lambda function: _Combiner(joining, max(least, 2)).visit_expr(function)
    )
    return simplify_bindings(module)


@mutator
class _Combiner(PyExprMutator):
    def __init__(self, joining: Joining, least: int) -> None:
        super().__init__()
        self._joining = joining
        self._least = least

    def visit_dataflow_block_(self, block: relax.DataflowBlock) -> relax.DataflowBlock:
        """The block with calls of one tensor joined."""
        bindings = list(super().visit_dataflow_block_(block).bindings)
        joined = _Block(self._joining, self._least, self.builder_.normalize, self.lookup_binding)
        return relax.DataflowBlock(joined.combined(bindings))


class _Block:
    """The bindings of one block, of which a group is joined at a time."""

    def __init__(self, joining: Joining, least: int, typed: Emit, outside: Bound) -> None:
        self._joining = joining
        self._least = least
        self._typed = typed
        self._outside = outside

    def combined(self, bindings: list[relax.Binding]) -> list[relax.Binding]:
        """The bindings with all groups joined."""
        while True:
            self._read_by: dict[relax.Var, list[relax.VarBinding]] = {}
            self._values: dict[relax.Var, Expression] = {}
            for binding in bindings:
                for variable in variables_read(binding.value):
                    self._read_by.setdefault(variable, []).append(binding)
                if isinstance(binding, relax.VarBinding):
                    self._values[binding.var] = binding.value
            group = next(self._groups(bindings), None)
            if group is None:
                return bindings
            bindings = self._joined(bindings, group)

    def _root(self, binding: relax.Binding) -> Root | None:
        if not isinstance(binding, relax.VarBinding) or not isinstance(binding.value, relax.Call):
            return None
        return self._joining.root(binding.value, self._bound)

    def _bound(self, variable: relax.Var) -> Expression | None:
        return self._values[variable] if variable in self._values else self._outside(variable)

    def _groups(self, bindings: Sequence[relax.Binding]) -> Iterator[list[Branch]]:
        """Branches, cut to the length that they have in common, whose roots can be joined."""
        families: list[tuple[Root, list[relax.VarBinding]]] = []
        for binding in bindings:
            root = self._root(binding)
            if root is None:
                continue
            for first, family in families:
                if root.data.same_as(first.data) and self._joining.joins(first, root):
                    family.append(binding)
                    break
            else:
                families.append((root, [binding]))
        for _, family in families:
            if len(family) >= self._least:
                group = self._cut([self._branch(binding) for binding in family])
                if not _reads_itself(bindings, group):
                    yield group

    def _branch(self, root: relax.VarBinding) -> Branch:
        branch = [root]
        while True:
            last = branch[-1]
            readers = self._read_by.get(last.var, [])
            if (
                len(readers) != 1
                or not isinstance(last.var, relax.DataflowVar)
                or TABLE.get(operator_name(readers[0].value)) is not _ELEMENTWISE
            ):
                return branch
            branch.append(readers[0])

    def _cut(self, branches: list[Branch]) -> list[Branch]:
        steps = list(zip(*branches, strict=False))
        root = self._root(steps[0][0])
        assert root is not None
        alike = takewhile(lambda pair: self._are_alike(root, *pair), pairwise(steps))
        length = 1 + sum(1 for _ in alike)
        return [branch[:length] for branch in branches]

    def _are_alike(
        self, root: Root, before: Sequence[relax.VarBinding], step: Sequence[relax.VarBinding]
    ) -> bool:
        """Whether calls at one place of all branches are one operator whose operands can be joined."""
        calls = [binding.value for binding in step]
        first = calls[0]
        if not all(_are_one_operator(call, first) for call in calls):
            return False
        chained = {_places(call, binding.var) for call, binding in zip(calls, before, strict=True)}
        if len(chained) != 1 or len(places := chained.pop()) != 1:
            return False
        return all(
            self._operands_fit(root, [call.args[place] for call in calls], calls)
            for place in range(len(first.args))
            if place not in places
        )

    def _operands_fit(self, root: Root, operands: Sequence[Expression], calls: Sequence[relax.Call]) -> bool:
        if not isinstance(operands[0].ty, relax.TensorType):
            return all(structural_equal(operand, operands[0]) for operand in operands)
        return self._joining.operands_fit(root, operands, calls)

    def _joined(self, bindings: Sequence[relax.Binding], group: Sequence[Branch]) -> list[relax.Binding]:
        added: list[relax.Binding] = []

        def emit(value: Expression) -> relax.Var:
            value = self._typed(value)
            variable = relax.DataflowVar(f"joined_{len(added)}", value.ty)
            added.append(relax.VarBinding(variable, value))
            return variable

        roots = [root for root in (self._root(branch[0]) for branch in group) if root is not None]
        joined = emit(self._joining.joined(emit, roots))
        for place in range(1, len(group[0])):
            step = [branch[place].value for branch in group]
            chained = [branch[place - 1].var for branch in group]
            operands = [
                joined
                if isinstance(argument, relax.Var) and argument.same_as(chained[0])
                else self._operand(emit, roots[0], [call.args[at] for call in step], step)
                for at, argument in enumerate(step[0].args)
            ]
            joined = emit(relax.Call(step[0].op, operands, step[0].attrs, step[0].ty_args))
        parts = self._joining.parts(emit, roots[0], joined, [branch[-1].value for branch in group])
        added.extend(
            relax.VarBinding(branch[-1].var, self._typed(part))
            for branch, part in zip(group, parts, strict=True)
        )
        gone = {binding.var for branch in group for binding in branch}
        first = next(place for place, binding in enumerate(bindings) if binding.var in gone)
        kept = [binding for binding in bindings if binding.var not in gone]
        return _in_order([*kept[:first], *added, *kept[first:]])

    def _operand(
        self, emit: Emit, root: Root, operands: Sequence[Expression], calls: Sequence[relax.Call]
    ) -> Expression:
        if not isinstance(operands[0].ty, relax.TensorType):
            return operands[0]
        return self._joining.operand(emit, root, operands, calls)


def _reads_itself(bindings: Sequence[relax.Binding], group: Sequence[Branch]) -> bool:
    """Whether what one branch reads is computed of what another one gives."""
    reached = {branch[0].var for branch in group}
    for binding in bindings:
        if any(variable in reached for variable in variables_read(binding.value)):
            reached.add(binding.var)
    for branch in group:
        before = None
        for binding in branch:
            if any(one in reached and not one.same_as(before) for one in variables_read(binding.value)):
                return True
            before = binding.var
    return False


def _are_one_operator(one: relax.Call, other: relax.Call) -> bool:
    alike = operator_name(one) == operator_name(other) and len(one.args) == len(other.args)
    return alike and bool(structural_equal(one.attrs, other.attrs))


def _places(call: relax.Call, variable: relax.Var) -> tuple[int, ...]:
    """Where a call reads a variable."""
    return tuple(place for place, operand in enumerate(call.args) if operand.same_as(variable))


def _in_order(bindings: Sequence[relax.Binding]) -> list[relax.Binding]:
    """The bindings in their order, but each behind what it reads."""
    waiting = {binding.var: binding for binding in bindings}
    ordered: list[relax.Binding] = []
    for binding in bindings:
        stack = [binding]
        while stack:
            one = stack[-1]
            missing = [waiting[used] for used in variables_read(one.value) if used in waiting]
            if one.var not in waiting:
                stack.pop()
            elif missing:
                stack.extend(reversed(missing))
            else:
                ordered.append(waiting.pop(stack.pop().var))
    return ordered
