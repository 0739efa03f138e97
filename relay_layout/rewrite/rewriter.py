"""From a solution to a new function: operators get new attributes, and transforms are inserted."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

from tvm import relax
from tvm_ffi import structural_map

from relay_layout.choice.memory import expanded, expanded_shape, same_memory
from relay_layout.choice.solver import Solution
from relay_layout.extent_polynomials import provably_equal
from relay_layout.graph import MATCH_CAST, Graph, Node, Tree, Value
from relay_layout.ir import (
    Constant,
    Expression,
    constant_array,
    filled_constant,
    function_attributes,
    function_scope,
    size_in_bytes,
    with_attributes,
)
from relay_layout.layout import Layout
from relay_layout.layout.transform import apply
from relay_layout.ops import Placement, Signature
from relay_layout.rewrite.moving import move
from relay_layout.targets.convolutions import CONVOLUTION_AXES


@dataclass
class TransformCount:
    """Transforms that remain at run time; ``moves`` are their values, with the layouts before and after."""

    activations: int = 0
    activation_bytes: int = 0
    weights: int = 0
    moves: list[tuple[Value, Layout, Layout]] = field(default_factory=list)


@dataclass
class Rewritten:
    """The new function, and what the verifier and the report need to know of it.

    ``names`` gives the node that a binding of the new function computes. ``forms`` are layouts over the
    dimensions of the original values, by the names of what holds them now.
    """

    function: relax.Function
    placements: list[Placement] = field(default_factory=list)
    transforms: TransformCount = field(default_factory=TransformCount)
    names: dict[str, str] = field(default_factory=dict)
    forms: dict[str, Layout] = field(default_factory=dict)


def rewrite(graph: Graph, solution: Solution, outputs: dict[Value, Layout]) -> Rewritten:
    """Build the function that runs every node with its chosen signature.

    Constants are transformed here, once; equal requests for one value share one transform.
    """
    return _Rewriter(graph, solution, outputs).run()


class _Rewriter:
    def __init__(self, graph: Graph, solution: Solution, outputs: dict[Value, Layout]) -> None:
        self.graph = graph
        self.solution = solution
        self.outputs = outputs
        self.builder = relax.BlockBuilder()
        # Every form in which a value exists so far; the first is the one its producer wrote.
        self.forms: dict[Value, dict[Layout, Expression]] = {}
        self.placements: list[Placement] = []
        self.transforms = TransformCount()
        self.names: dict[str, str] = {}

    def run(self) -> Rewritten:
        function = self.graph.function
        for value in self.graph.parameters:
            self.forms[value] = {value.identity: value.expression}
        name = "main"
        dataflow = all(node.operator for node in self.graph.nodes)
        with function_scope(self.builder, name, function.params, function_attributes(function)):
            with self.builder.dataflow() if dataflow else nullcontext():
                for node in self.graph.nodes:
                    self._emit(node)
                result = self._output(self.graph.output)
                output = (self.builder.emit_output if dataflow else self.builder.emit)(result)
            if isinstance(result, relax.Var) and str(result.name) in self.names:
                self.names[str(output.name)] = self.names[str(result.name)]
            self.builder.emit_func_output(output)
        module = self.builder.finalize()
        if not dataflow:
            module = relax.transform.ConvertToDataflow(min_size=1)(module)
        module = relax.transform.CanonicalizeBindings()(relax.transform.DeadCodeElimination()(module))
        forms: dict[str, Layout] = {}
        for kept in self.forms.values():
            for layout, expression in kept.items():
                if not isinstance(expression, Constant):
                    # An expression that only passes a tensor on comes after the one that computed it.
                    forms.setdefault(_name_of(expression), layout)
        return Rewritten(module[name], self.placements, self.transforms, self.names, forms)

    def _emit(self, node: Node) -> None:
        signature = self.solution.signatures[node]
        operands = [
            self._form(value, layout, as_weight=position > 0 and node.operator in CONVOLUTION_AXES)
            for position, (value, layout) in enumerate(zip(node.operands, signature.operands, strict=True))
        ]
        results = self._compute(node, signature, operands)
        for value, layout, result in zip(node.results, signature.results, results, strict=True):
            self.forms[value] = {layout: result}
        self.placements.append(Placement(node, signature, operands, results))

    def _compute(self, node: Node, signature: Signature, operands: list[Expression]) -> list[Expression]:
        if node.operator == MATCH_CAST:
            return self._cast(node, signature, operands)
        if signature.alias:
            return [self._reshape(operands[0], node.results[0], signature.results[0], node.name)]
        if signature.replacement is not None:
            expression = signature.replacement(self.builder, operands)
        elif not node.operator:
            expression = _substituted(node, operands)
        else:
            expression = with_attributes(node.expression, _arguments(node, operands), **signature.attributes)
        if not node.results:
            # Shapes and the like are read through their variable, which therefore stays.
            self.builder.emit_normalized(relax.VarBinding(node.variable, self.builder.normalize(expression)))
            return []
        # What is bound already keeps its name, by which the verifier finds it.
        bound = isinstance(expression, relax.Var)
        variable = expression if bound else self.builder.emit(expression, name_hint=node.name)
        self.names[str(variable.name)] = node.name
        if len(node.results) == 1 and isinstance(variable.ty, relax.TensorType):
            return [variable]
        return [relax.TupleGetItem(variable, index) for index in range(len(node.results))]

    def _cast(self, node: Node, signature: Signature, operands: list[Expression]) -> list[Expression]:
        """The same check of extents in the chosen layout; of anything but one tensor as it was."""
        if len(node.results) != 1 or node.results[0].shape is None or not operands:
            value = operands[0] if operands else node.expression
            self.builder.emit_normalized(relax.MatchCast(node.variable, value, node.variable.ty))
            return [value.expression for value in node.results]
        result, layout = node.results[0], signature.results[0]
        shape = layout.shape(result.shape or (), result.identity)
        return [self.builder.match_cast(operands[0], relax.TensorType(shape, result.dtype), node.name)]

    def _form(self, value: Value, layout: Layout, *, as_weight: bool = False) -> Expression:
        """``value`` in ``layout``, transformed if no node wrote it so."""
        if value.constant is not None:
            return self._constant(value, layout)
        forms = self.forms[value]
        if layout in forms:
            return forms[layout]
        for present, expression in forms.items():
            # A reshape reads an extent of 0 as "as before", so that an empty tensor is transposed.
            if not value.is_empty and same_memory(value, present, layout):
                forms[layout] = self._reshape(expression, value, layout, f"{value.name}_view")
                return forms[layout]
        written, expression = next(iter(forms.items()))
        forms[layout] = self._transform(value, expression, written, layout)
        self.transforms.moves.append((value, written, layout))
        if as_weight and value.producer is None:
            self.transforms.weights += 1
        else:
            self.transforms.activations += 1
            self.transforms.activation_bytes += size_in_bytes(value.shape or (), value.dtype)
        return forms[layout]

    def _constant(self, value: Value, layout: Layout) -> Expression:
        forms = self.forms.setdefault(value, {value.identity: value.expression})
        if layout not in forms:
            array = constant_array(value.expression)
            rank = len(layout.primal)
            array = array.reshape((1,) * (rank - array.ndim) + array.shape)
            source = Layout.generic(rank)
            forms[layout] = filled_constant(
                layout.shape(array.shape, source),
                array.dtype,
                lambda memory: apply(array, source, layout, out=memory),
            )
        return forms[layout]

    def _transform(self, value: Value, expression: Expression, source: Layout, target: Layout) -> Expression:
        rank = max(len(source.primal), len(target.primal))
        if len(source.primal) < rank:
            shape = expanded(source, rank).shape(expanded_shape(value, rank), Layout.generic(rank))
            expression = self.builder.emit(
                relax.op.reshape(expression, shape), name_hint=f"{value.name}_expanded"
            )
            source = expanded(source, rank)
        extents = expanded_shape(value, rank)
        return move(self.builder, expression, source, target, extents, value.name)

    def _reshape(self, expression: Expression, value: Value, layout: Layout, hint: str) -> Expression:
        rank = len(layout.primal)
        shape = layout.shape(expanded_shape(value, rank), Layout.generic(rank)) if rank else ()
        present = expression.ty.shape
        if present is not None and provably_equal(present.values, shape):
            return expression
        return self.builder.emit(relax.op.reshape(expression, shape), name_hint=hint)

    def _output(self, tree: Tree) -> Expression:
        if isinstance(tree, Value):
            return self._form(tree, self.outputs.get(tree, tree.identity))
        if isinstance(tree, tuple):
            return relax.Tuple([self._output(branch) for branch in tree])
        return tree


def _name_of(expression: Expression) -> str:
    """What the graph of the new function calls a value."""
    if isinstance(expression, relax.TupleGetItem):
        return f"{_name_of(expression.tuple_value)}.{expression.index}"
    return str(expression.name)


def _arguments(node: Node, operands: Sequence[Expression]) -> list[Expression]:
    """The call's arguments with its tensors replaced, in the order of ``node.operands``."""
    remaining = iter(operands)

    def rebuilt(tree: Any) -> Expression:
        if isinstance(tree, Value):
            return next(remaining)
        if isinstance(tree, tuple):
            return relax.Tuple([rebuilt(branch) for branch in tree])
        return tree

    return [rebuilt(branch) for branch in node.tree]


def _substituted(node: Node, operands: list[Expression]) -> Expression:
    """An expression that is no operator call, with the values it uses replaced."""
    replacement = {
        value.expression: operand
        for value, operand in zip(node.operands, operands, strict=True)
        if isinstance(value.expression, relax.Var)
    }

    def replace(variable: relax.Var) -> Expression:
        return replacement.get(variable, variable)

    return structural_map(node.expression, (relax.Var, replace))
