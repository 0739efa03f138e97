"""Branches and loops of PyTorch's programs, written out where what decides on them is known.

Of a condition that is known, one branch is taken; trips whose number is known are written out one after
another, as many as ONNX's are. Those that stay become calls of what is here, with graphs of their own:
what is known in those is a constant of theirs, so that weights reach the kernels of bodies as weights.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from operator import getitem
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch.fx.node import map_arg

from relay_layout.frontend.torch.folding import constants_of, folded
from relay_layout.frontend.torch.graphs import CONTROL_FLOW, all_nodes, held_graph
from relay_layout.frontend.torch.retracing import with_module
from relay_layout.frontend.trips import MOST_NODES, SEARCHED, TooMany, WrittenOut

_HIGHER = torch.ops.higher_order


class Call(torch._ops.HigherOrderOperator):
    """A branch or a loop that stays one."""

    def __call__(self, *arguments: Any) -> Any:
        """Nothing computes by it."""
        raise NotImplementedError(f"{self.name()} is read, and not run")


BRANCH = Call("relay_layout_branch")
"""Called with a condition, two graphs, and the operands of each: gives what the first graph gives if the
condition holds, else what the other does."""

LOOP = Call("relay_layout_loop")
"""Called with two graphs, what is carried, and the operands of each: gives what is carried at the end.

Both take what is carried, and their operands. The first says whether a trip of the second follows.
"""

SCAN = Call("relay_layout_scan")
"""Called with a graph, what is carried, what is scanned, and operands: gives what is carried at the end
and all rows.

The graph takes what is carried, a row of each tensor that is scanned, and its operands.
"""


def settled(program: Any, label: str) -> Any:
    """The decomposed program with branches and loops written out, or as calls of the above."""
    if not any(node.target in CONTROL_FLOW for node in all_nodes(program)):
        return program
    inputs = program.graph.find_nodes(op="placeholder")
    values = dict(constants_of(program))
    writer = _Main(torch.nn.Module(), WrittenOut(label))
    given = []
    for node in inputs:
        placeholder = writer.placeholder(node)
        if node in values:
            writer.known[placeholder] = values[node]
        given.append(placeholder)
    writer.give(writer.run(program.graph_module, given))
    return with_module(program, torch.fx.GraphModule(writer.root, writer.graph), inputs)


class _Open(Exception):
    """What decides on a loop is not known."""


class _Main:
    """The graph of a program under way, with what is known of its nodes.

    A value is a node of it, a number, or several of these; graph modules stand for themselves.
    """

    def __init__(self, root: Any, written_out: WrittenOut) -> None:
        self.graph = torch.fx.Graph()
        self.root = root
        self.known: dict[Any, Any] = {}
        self._written_out = written_out

    def placeholder(self, node: Any) -> Any:
        """A parameter like that of another graph."""
        found = self.graph.placeholder(node.name)
        found.meta = copy(node.meta)
        return found

    def give(self, results: Any) -> None:
        """End the graph."""
        self.graph.output(results)
        self.graph.eliminate_dead_code()

    def run(self, module: Any, operands: Sequence[Any]) -> Any:
        """What a graph gives of operands, its nodes written to this one."""
        given = iter(operands)
        found: dict[Any, Any] = {}
        # Numbers in the place of sizes that a graph does not know change the shapes of all that follows.
        changed = False
        for node in module.graph.nodes:
            if node.op == "placeholder":
                found[node] = next(given)
                changed |= _sizes(node) != _sizes(found[node])
            elif node.op == "get_attr":
                graph = held_graph(node)
                found[node] = self.held(getattr(module, node.target), node) if graph is None else graph
            elif node.op == "output":
                return _replaced(node.args[0], found)
            else:
                found[node] = self._called(node, found, changed)
        raise AssertionError("a graph without output")

    def held(self, tensor: Any, node: Any) -> Any:
        """A constant, like a ``node`` of another graph."""
        name = f"constant_{len(self.root._buffers)}"
        self.root.register_buffer(name, tensor)
        found = self.graph.get_attr(name)
        found.meta = copy(node.meta)
        self.known[found] = tensor
        return found

    def written(self, node: Any) -> Any:
        """A node of the graph, or what stands for it where its value is known."""
        value = folded(node, self.known)
        if value is not None:
            self.known[node] = value
        return node

    def _called(self, node: Any, found: Mapping[Any, Any], changed: bool) -> Any:
        arguments, options = _replaced((node.args, node.kwargs), found)
        if node.target in CONTROL_FLOW:
            return _WRITERS[node.target](self, node, *arguments)
        if node.target is getitem and isinstance(arguments[0], list | tuple):
            return arguments[0][arguments[1]]
        if not isinstance(node.target, torch._ops.OpOverload) and not _nodes_in((arguments, options)):
            return node.target(*arguments, **options)
        call = self.call(node.target, arguments, options, node)
        if changed:
            call.meta["val"] = _value(call)
        return self.written(call)

    def call(self, target: Any, arguments: Any, options: Any, like: Any) -> Any:
        """A call, named and typed like a node of another graph."""
        found = self.graph.create_node("call_function", target, arguments, options, name=like.name)
        found.meta = copy(like.meta)
        return found

    def number(self, value: Any) -> Any:
        """A number or a tensor of one element as a number of Python; None where it is not known."""
        if isinstance(value, torch.fx.Node):
            known = self.known.get(value)
            return known.item() if isinstance(known, torch.Tensor) and known.numel() == 1 else None
        return value if isinstance(value, bool | int | float) else None

    def taken_back(self, write: Callable[[], Any], most: int) -> Any:
        """What ``write`` gives, of so many operations at most; None and no trace of it where it cannot."""
        last = next(iter(reversed(self.graph.nodes)), None)
        try:
            with self._written_out.at_most(most):
                return write()
        except (TooMany, _Open):
            for node in list(reversed(self.graph.nodes)):
                if node is last:
                    break
                self.known.pop(node, None)
                self.graph.erase_node(node)
            return None

    def trip(self, module: Any, operands: Sequence[Any]) -> Any:
        """What a graph gives as one of many trips."""
        self._written_out.add(len(module.graph.nodes))
        return self.run(module, operands)

    def graph_of(self, module: Any, own: Sequence[Any], operands: Sequence[Any]) -> tuple[Any, list[Any]]:
        """A node for a graph in a call that stays, and the operands that it takes beside its ``own``.

        Of those, numbers and what is known are in the graph.
        """
        inner = _Inner(torch.nn.Module(), self._written_out)
        parameters = module.graph.find_nodes(op="placeholder")
        given: list[Any] = [inner.placeholder(node) for node in parameters[: len(own)]]
        taken = []
        for node, operand in zip(parameters[len(own) :], operands, strict=True):
            if isinstance(self.known.get(operand), torch.Tensor):
                given.append(inner.held(self.known[operand], node))
            elif isinstance(operand, torch.fx.Node):
                given.append(inner.placeholder(node))
                taken.append(operand)
            else:
                given.append(operand)
        inner.give(inner.run(module, given))
        name = f"graph_{len(self.root._modules)}"
        self.root.register_module(name, torch.fx.GraphModule(inner.root, inner.graph))
        return self.graph.get_attr(name), taken


class _Inner(_Main):
    """The graph of a body under way, in which all that is known is a constant."""

    def written(self, node: Any) -> Any:
        """As in any graph; a tensor that is known becomes a constant."""
        value = self.known.get(super().written(node))
        if not isinstance(value, torch.Tensor):
            return node
        found = self.held(value, node)
        self.graph.erase_node(node)
        return found


def _cond(writer: _Main, node: Any, condition: Any, positive: Any, negative: Any, operands: Any = ()) -> Any:
    decided = writer.number(condition)
    if decided is not None:
        return writer.run(positive if decided else negative, operands)
    sides = [writer.graph_of(side, (), operands) for side in (positive, negative)]
    return _call(writer, node, BRANCH, condition, *_apart(sides))


def _while(writer: _Main, node: Any, goes_on: Any, body: Any, carried: Any, operands: Any = ()) -> Any:
    def written_out() -> Any:
        states = list(carried)
        while True:
            decided = writer.number(writer.run(goes_on, [*states, *operands]))
            if decided is None:
                raise _Open
            if not decided:
                return states
            states = list(writer.trip(body, [*states, *operands]))

    found = writer.taken_back(written_out, SEARCHED)
    if found is not None:
        return found
    graphs = [writer.graph_of(graph, carried, operands) for graph in (goes_on, body)]
    (both, taken) = _apart(graphs)
    return _call(writer, node, LOOP, both, list(carried), taken)


def _scan(writer: _Main, node: Any, body: Any, carried: Any, scanned: Any, operands: Any = ()) -> Any:
    trips = scanned[0].meta["val"].shape[0]
    number = len(carried)

    def written_out() -> Any:
        states, rows = list(carried), []
        for place in range(trips):
            results = list(writer.trip(body, [*states, *_rows(writer, scanned, place), *operands]))
            states = results[:number]
            rows.append(results[number:])
        wholes = enumerate(zip(*rows, strict=True), number)
        return [*states, *(_stacked(writer, node, at, each) for at, each in wholes)]

    found = writer.taken_back(written_out, MOST_NODES) if isinstance(trips, int) and trips else None
    if found is not None:
        return found
    graph, taken = writer.graph_of(body, [*carried, *scanned], operands)
    return _call(writer, node, SCAN, graph, list(carried), list(scanned), taken)


def _map(writer: _Main, node: Any, body: Any, scanned: Any, operands: Any = ()) -> Any:
    return _scan(writer, node, body, (), scanned, operands)


_WRITERS: Mapping[Any, Callable[..., Any]] = {
    _HIGHER.cond: _cond,
    _HIGHER.while_loop: _while,
    _HIGHER.scan: _scan,
    _HIGHER.map_impl: _map,
}


def _call(writer: _Main, node: Any, target: Call, *arguments: Any) -> Any:
    return writer.call(target, arguments, {}, node)


def _rows(writer: _Main, scanned: Sequence[Any], place: int) -> list[Any]:
    """The parts that a trip reads."""
    found = []
    for tensor in scanned:
        row = writer.graph.call_function(torch.ops.aten.select.int, (tensor, 0, place))
        row.meta["val"] = _value(row)
        found.append(writer.written(row))
    return found


def _stacked(writer: _Main, node: Any, place: int, rows: Sequence[Any]) -> Any:
    """What the trips gave, along a first axis."""
    whole = writer.graph.call_function(torch.ops.aten.stack.default, (list(rows),))
    whole.meta["val"] = node.meta["val"][place]
    return whole


def _apart(pairs: Sequence[tuple[Any, Any]]) -> tuple[list[Any], list[Any]]:
    return [one for one, _ in pairs], [other for _, other in pairs]


def _replaced(arguments: Any, found: Mapping[Any, Any]) -> Any:
    return map_arg(arguments, found.__getitem__)


def _sizes(value: Any) -> list[str]:
    """A number, or the extents of a tensor."""
    value = value.meta.get("val") if isinstance(value, torch.fx.Node) else value
    return [str(extent) for extent in value.shape] if isinstance(value, torch.Tensor) else [str(value)]


def _nodes_in(arguments: Any) -> list[Any]:
    nodes: list[Any] = []
    map_arg(arguments, nodes.append)
    return nodes


def _value(node: Any) -> Any:
    """What a call gives, as PyTorch computes its shape."""
    arguments, options = map_arg((node.args, node.kwargs), lambda one: one.meta["val"])
    mode = detect_fake_mode([one.meta["val"] for one in node.all_input_nodes])
    if mode is None:
        return node.target(*arguments, **options)
    with mode, torch.no_grad():
        return node.target(*arguments, **options)
