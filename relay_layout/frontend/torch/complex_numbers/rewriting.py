"""Programs of complex numbers as programs of real ones: Relax has no complex tensors.

Every operation that depends on an input and gives complex numbers is retraced as operations on pairs of real
tensors, by the rules of this folder.
"""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from operator import getitem
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_aggregate
from torch.utils._pytree import tree_leaves

from relay_layout.errors import ModelError
from relay_layout.frontend.torch.arguments import input_names
from relay_layout.frontend.torch.complex_numbers import arithmetic, fourier, products, structure
from relay_layout.frontend.torch.complex_numbers.pair import REAL_TYPES, Pair, as_pair
from relay_layout.frontend.torch.rules.rule import aten

_RULES = {**arithmetic.RULES, **fourier.RULES, **products.RULES, **structure.RULES}


def in_real_numbers(program: Any, label: str) -> bool:
    """Puts a pair of real tensors for each complex one that depends on an input; whether there was any.

    What rules make of the operations is not taken apart. Complex tensors that depend on constants alone stay,
    to be computed before the program runs.

    ModelError for inputs and outputs that are complex, and for operations without a rule.
    """
    _check_border(program, label)
    rewriter = _Rewriter(program)
    for node in _dependent(program):
        try:
            rewriter.rewrite(node)
        except ModelError as error:
            raise ModelError(f"{label}: node '{node.name}': {error}") from None
    if rewriter.changed:
        program.graph.eliminate_dead_code()
        program.graph_module.recompile()
    return rewriter.changed


def _dependent(program: Any) -> list[Any]:
    """The operations that depend on an input, or on the shape of one."""
    found = {node for node in program.graph.nodes if node.name in input_names(program)}
    for node in program.graph.nodes:
        if node.op == "call_function" and not found.isdisjoint(node.all_input_nodes):
            found.add(node)
    return [node for node in program.graph.nodes if node.op == "call_function" and node in found]


def is_complex(node: Any) -> bool:
    """Whether a node is complex, or a list in which a tensor is."""
    values = tree_leaves(node.meta.get("val"))
    return any(isinstance(value, torch.Tensor) and value.is_complex() for value in values)


def _check_border(program: Any, label: str) -> None:
    named = set(input_names(program))
    for node in program.graph.nodes:
        if node.name in named and is_complex(node):
            raise ModelError(
                f"{label}: input '{node.name}' is complex, which is not supported; make the input "
                "view_as_real of it, and begin with view_as_complex"
            )
        if node.op == "output":
            for place, value in enumerate(node.args[0]):
                if isinstance(value, torch.fx.Node) and is_complex(value):
                    raise ModelError(
                        f"{label}: output {place} (node '{value.name}') is complex, which is not supported; "
                        "return view_as_real of it"
                    )


class _Rewriter:
    """Puts nodes for the parts of complex results in front of the nodes that they replace."""

    def __init__(self, program: Any) -> None:
        self._graph = program.graph
        self._mode = detect_fake_mode([node.meta.get("val") for node in program.graph.nodes])
        self._values: dict[Any, Any] = {}
        """For complex nodes a Pair of nodes, for lists of complex tensors a list."""
        self._viewed: dict[Any, Pair] = {}
        """The pair by the node of a real tensor that its parts were joined to."""
        self.changed = False

    def rewrite(self, node: Any) -> None:
        """Makes real what is complex of a node's operands and results."""
        if node.target is aten.select.int and node.args[0] in self._viewed:
            self._select(node)
        elif any(map(is_complex, (node, *node.all_input_nodes))):
            self.changed = True
            with self._graph.inserting_before(node):
                self._replace(node)

    def _select(self, node: Any) -> None:
        """A part that is taken out of the tensor of both is that of the pair."""
        viewed, dim, place = node.args
        pair = self._viewed[viewed]
        if dim % len(viewed.meta["val"].shape) == len(viewed.meta["val"].shape) - 1:
            node.replace_all_uses_with(pair.imaginary if place % 2 else pair.real)

    def _replace(self, node: Any) -> None:
        arguments, options = map_aggregate((node.args, dict(node.kwargs)), self._value)
        if node.target is getitem:
            result = arguments[0][arguments[1]]
        elif node.target in _RULES:
            result = self._by_rule(node, arguments, options)
        else:
            raise ModelError(
                f"{getattr(node.target, '__name__', node.target)} of complex numbers is not supported; "
                "compute with their real and imaginary parts"
            )
        if is_complex(node):
            self._values[node] = result
            return
        if node.target is aten.view_as_real.default:
            self._viewed[result] = arguments[0]
        node.replace_all_uses_with(result)

    def _value(self, leaf: Any) -> Any:
        """An argument, with a Pair where it is complex."""
        if not isinstance(leaf, torch.fx.Node) or not is_complex(leaf):
            return leaf
        if leaf not in self._values:
            # Of a constant, which PyTorch computes later. A conjugate is one in name until it is resolved.
            joined = self._called(aten.view_as_real.default, self._called(aten.resolve_conj.default, leaf))
            return Pair(*(self._called(aten.select.int, joined, -1, place) for place in (0, 1)))
        return self._values[leaf]

    def _called(self, operation: Any, first: Any, *further: Any) -> Any:
        node = self._graph.call_function(operation, (first, *further))
        node.meta["val"] = operation(first.meta["val"], *further)
        return node

    def _by_rule(self, node: Any, arguments: Any, options: Any) -> Any:
        """The nodes of what the operation's rule computes, in the structure of its result."""
        inputs: dict[Any, int] = {}
        structures: list[Any] = []

        def note(leaf: Any) -> Any:
            for one in (leaf.real, leaf.imaginary) if isinstance(leaf, Pair) else (leaf,):
                if isinstance(one, torch.fx.Node):
                    inputs.setdefault(one, len(inputs))
            return leaf

        map_aggregate((arguments, options), note)

        def compute(*values: Any) -> list[Any]:
            def given(leaf: Any) -> Any:
                if isinstance(leaf, Pair):
                    return Pair(values[inputs[leaf.real]], values[inputs[leaf.imaginary]])
                return values[inputs[leaf]] if isinstance(leaf, torch.fx.Node) else leaf

            own, named = map_aggregate((arguments, options), given)
            result = _RULES[node.target](*own, **named)
            structures.append(_as_expected(result, node.meta["val"]))
            return [*_tensors(structures[-1])]

        values = [one.meta["val"] for one in inputs]
        with torch.no_grad(), self._mode or nullcontext():
            traced = make_fx(compute)(*values)
        nodes = iter(self._inlined(traced.graph, list(inputs)))
        return _in_structure(structures[-1], nodes)

    def _inlined(self, graph: Any, inputs: Sequence[Any]) -> Sequence[Any]:
        """The nodes of a graph's results, copied to before the node that is rewritten."""
        copies: dict[Any, Any] = {}
        given = iter(inputs)
        for node in graph.nodes:
            if node.op == "placeholder":
                copies[node] = next(given)
            elif node.op == "output":
                return [copies[one] for one in node.args[0]]
            else:
                copies[node] = self._graph.node_copy(node, copies.__getitem__)
        raise AssertionError("a traced graph has an output")


def _as_expected(result: Any, expected: Any) -> Any:
    """A rule's result in the types of the program."""
    if isinstance(expected, list | tuple):
        return [_as_expected(*both) for both in zip(result, expected, strict=True)]
    if not expected.is_complex():
        found = result.to(expected.dtype)
    else:
        pair, real_type = as_pair(result), REAL_TYPES[expected.dtype]
        found = Pair(pair.real.to(real_type), pair.imaginary.to(real_type))
    numbers = [extent if isinstance(extent, int) else None for extent in expected.shape]
    if [have if isinstance(have, int) else None for have in found.shape] != numbers:
        raise ModelError(f"{[*found.shape]} elements were computed where {numbers} are expected")
    return found


def _tensors(result: Any) -> Iterator[torch.Tensor]:
    if isinstance(result, list):
        for one in result:
            yield from _tensors(one)
    elif isinstance(result, Pair):
        yield from (result.real, result.imaginary)
    else:
        yield result


def _in_structure(result: Any, nodes: Iterator[Any]) -> Any:
    """The nodes as the tensors of a result lie in it."""
    if isinstance(result, list):
        return [_in_structure(one, nodes) for one in result]
    return Pair(next(nodes), next(nodes)) if isinstance(result, Pair) else next(nodes)
