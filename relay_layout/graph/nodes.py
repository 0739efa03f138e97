"""A Relax function as layout choices see it: tensor values, and the operators between them.

Tuples are taken apart, so that an operator with several results has several values and a tuple that
is only passed on is nothing at all. Dataflow blocks are one sequence: what a value's layout should be
does not depend on the block that computes it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import tvm
from tvm import relax

from relay_layout.ir import Constant, Expression, Extent, dtype_of, is_empty, operator_name, shape_of
from relay_layout.layout import Layout

MATCH_CAST = "match_cast"
"""Stands for an operator's name where a binding checks and names extents."""

Tree = Any
"""A :class:`Value`, a tuple of trees, or a Relax expression that holds no tensor."""


@dataclass(eq=False)
class Value:
    """One tensor: a parameter, a constant, or a result of a node."""

    name: str
    shape: tuple[Extent, ...] | None
    dtype: str
    expression: Expression
    producer: "Node | None" = None
    constant: Constant | None = None
    consumers: list[tuple["Node", int]] = field(default_factory=list)

    @property
    def rank(self) -> int:
        return len(self.shape) if self.shape is not None else 0

    @property
    def identity(self) -> Layout:
        """The layout in which the original module holds the value."""
        return Layout.generic(self.rank)

    @property
    def is_empty(self) -> bool:
        """Whether it is known to have no elements, so that nothing can be wrong with them."""
        return is_empty(self.shape or ())


@dataclass(eq=False)
class Node:
    """One binding that computes: an operator call, or anything else taken whole.

    ``name`` is the variable's; where an earlier one has that, it is made from the operator's.
    """

    variable: relax.Var
    expression: Expression
    operator: str
    operands: list[Value]
    results: list[Value]
    name: str
    tree: Tree = None

    @property
    def attributes(self) -> Any:
        """The call's attributes, as Python attributes; one that Relay left open is missing or None."""
        attributes = getattr(self.expression, "attrs", None)
        if isinstance(attributes, tvm.ir.DictAttrs):
            return SimpleNamespace(**{str(name): value for name, value in attributes.items()})
        return attributes

    @property
    def has_known_ranks(self) -> bool:
        """Are the ranks of all operands and results known?"""
        return all(value.shape is not None for value in (*self.operands, *self.results))

    def operand_shapes(self) -> list[tuple[Extent, ...]]:
        return [value.shape or () for value in self.operands]


@dataclass
class Graph:
    """The values and nodes of one function, in the order in which they compute."""

    function: relax.Function
    parameters: list[Value]
    nodes: list[Node]
    output: Tree

    def values(self) -> Iterator[Value]:
        yield from self.parameters
        for node in self.nodes:
            yield from node.results

    def outputs(self) -> list[Value]:
        return list(leaves(self.output))

    def tensors(self) -> Iterator[Value]:
        """All values, constants among them, once for each that takes or gives them."""
        yield from self.values()
        for node in self.nodes:
            yield from node.operands
        yield from self.outputs()


def leaves(tree: Tree) -> Iterator[Value]:
    """The tensor values of a tree, in order."""
    if isinstance(tree, Value):
        yield tree
    elif isinstance(tree, tuple):
        for branch in tree:
            yield from leaves(branch)


def build_graph(function: relax.Function) -> Graph:
    """Read a function in A-normal form (as the Relax block builder leaves it)."""
    reader = _Reader()
    return reader.read(function)


class _Reader:
    def __init__(self) -> None:
        self.environment: dict[relax.Var, Tree] = {}
        self.constants: dict[int, Value] = {}
        self.nodes: list[Node] = []
        self.names: set[str] = set()

    def read(self, function: relax.Function) -> Graph:
        parameters = []
        for parameter in function.params:
            tree = self._tree_of_type(parameter, parameter.ty, parameter.name, None)
            self.environment[parameter] = tree
            parameters += list(leaves(tree))
        body = function.body
        if not isinstance(body, relax.SeqExpr):
            return Graph(function, parameters, [], self._tree(body))
        for block in body.blocks:
            for binding in block.bindings:
                self._bind(binding)
        return Graph(function, parameters, self.nodes, self._tree(body.body))

    def _bind(self, binding: Any) -> None:
        expression = binding.value
        alias = isinstance(expression, (relax.Var, Constant, relax.Tuple, relax.TupleGetItem))
        if alias and isinstance(binding, relax.VarBinding):
            self.environment[binding.var] = self._tree(expression)
            return
        operator = operator_name(expression) if isinstance(binding, relax.VarBinding) else MATCH_CAST
        name = self._unused(str(binding.var.name), operator)
        node = Node(binding.var, expression, operator, [], [], name)
        if operator == MATCH_CAST:
            node.tree = (self._tree(expression),)
            node.operands = list(leaves(node.tree))
        elif operator:
            node.tree = tuple(self._tree(argument) for argument in expression.args)
            node.operands = list(leaves(node.tree))
        else:
            node.operands = [
                value
                for variable in relax.analysis.free_vars(expression)
                for value in leaves(self._tree(variable))
            ]
        for position, value in enumerate(node.operands):
            value.consumers.append((node, position))
        tree = self._tree_of_type(binding.var, binding.var.ty, name, node)
        node.results = list(leaves(tree))
        self.environment[binding.var] = tree
        self.nodes.append(node)

    def _unused(self, name: str, operator: str) -> str:
        """A name that no node before has."""
        base = operator.rpartition(".")[2] or name
        found, count = name, 1
        while found in self.names:
            found, count = f"{base}_{count}", count + 1
        self.names.add(found)
        return found

    def _tree(self, expression: Expression) -> Tree:
        if isinstance(expression, relax.Var):
            return self.environment.get(expression, expression)
        if isinstance(expression, Constant):
            # A constant used twice is one object in Relax; its value must be one object here too.
            key = expression.__chandle__()
            if key not in self.constants:
                self.constants[key] = Value(
                    "constant", shape_of(expression), dtype_of(expression), expression, None, expression
                )
            return self.constants[key]
        if isinstance(expression, relax.Tuple):
            return tuple(self._tree(element) for element in expression.fields)
        if isinstance(expression, relax.TupleGetItem):
            return self._tree(expression.tuple_value)[expression.index]
        return expression

    def _tree_of_type(self, expression: Expression, kind: Any, name: str, node: Node | None) -> Tree:
        if isinstance(kind, relax.TensorType):
            shape = kind.shape
            extents = shape_of(expression) if not isinstance(shape, relax.Var) else None
            return Value(name, extents, str(kind.dtype), expression, node)
        if isinstance(kind, relax.TupleType):
            return tuple(
                self._tree_of_type(relax.TupleGetItem(expression, index), element, f"{name}.{index}", node)
                for index, element in enumerate(kind.fields)
            )
        return expression
