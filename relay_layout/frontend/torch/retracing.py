"""Programs taken apart in one walk, which computes of those operations alone that are taken apart.

PyTorch's own ``run_decompositions`` computes every operation of a program anew, twice and through three kinds
of wrapped tensors. Where sizes are open each of that is arithmetic of symbols, and a network of a few hundred
operations takes a minute. What an operation that stays gives is written in the program already.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from copy import copy
from operator import getitem, mul
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensor
from torch.export.exported_program import (
    _override_composite_implicit_decomp,
    _split_decomp_table_to_cia_and_python_decomp,
)
from torch.fx.experimental.proxy_tensor import get_proxy_mode, make_fx, track_tensor_tree
from torch.fx.node import map_aggregate
from torch.utils import _pytree as pytree

from relay_layout.frontend.torch.graphs import CONTROL_FLOW, counted_by_data, held_graph

Rule = Callable[..., Any]

_NORM = torch.ops.aten.batch_norm.default
"""Has the tag of operations that may give their operand back for what it does to statistics alone."""

_STRIDE, _ELEMENTS = torch.ops.aten.sym_stride.int, torch.ops.aten.sym_numel.default

_SIZES = (torch.SymInt, torch.SymFloat, torch.SymBool)


class Unsuited(Exception):
    """A program that this walk does not take apart."""


def retraced(program: Any, table: Mapping[Any, Rule]) -> Any:
    """The exported program with its operations by the rules of ``table``, as ``run_decompositions`` gives it.

    Operations that change a tensor that nothing else reads become those that give a new one. Raises
    :class:`Unsuited` for programs whose changes of tensors are seen elsewhere, for those that hold functions,
    and where the data decide sizes.
    """
    inputs = program.graph.find_nodes(op="placeholder")
    modes = [node.meta["val"].fake_mode for node in inputs if isinstance(node.meta.get("val"), FakeTensor)]
    if not modes or counted_by_data(program):
        raise Unsuited
    of_composites, of_others = _split_decomp_table_to_cia_and_python_decomp(dict(table))
    with ExitStack() as stack:
        for context in (
            modes[0],
            _override_composite_implicit_decomp(of_composites),
            enable_python_dispatcher(),
            torch.no_grad(),
            _plain_backends(),
        ):
            stack.enter_context(context)
        module = _traced(program.graph_module, of_others, {*table})
    return with_module(program, module, inputs)


def _traced(module: Any, table: Mapping[Any, Rule], ruled: set[Any]) -> Any:
    """A graph with its operations by the rules of ``table``, and the graphs that it holds with theirs."""
    nodes = list(module.graph.nodes)
    values = _distinct([node.meta.get("val") for node in nodes if node.op == "placeholder"])
    written = _in_place(nodes)
    held = {node: _traced(graph, table, ruled) for node in nodes if (graph := held_graph(node)) is not None}
    traced = make_fx(_Walk(nodes, written, ruled, held).run, decomposition_table=dict(table))(*values)
    traced.graph.eliminate_dead_code()
    _Sizes(traced.graph).settle()
    if any(not _is_functional(node) for node in traced.graph.nodes):
        raise Unsuited
    return traced


def _distinct(values: list[Any]) -> list[Any]:
    """The values, with a tensor of its own for each that stands there again, as parameters of bodies do."""
    seen: set[int] = set()
    found = []
    for value in values:
        found.append(value.detach() if isinstance(value, torch.Tensor) and id(value) in seen else value)
        seen.add(id(value))
    return found


@contextmanager
def _plain_backends() -> Iterator[None]:
    """Without operations of libraries, which composite ones become where these are there."""
    backends = torch.backends.mkldnn, torch.backends.nnpack, torch.backends.cudnn
    before = [backend.set_flags(False) for backend in backends]
    try:
        yield
    finally:
        for backend, flags in zip(backends, before, strict=True):
            backend.set_flags(*flags)


class _Walk:
    """The nodes of a program, computed where they are to be taken apart and written down elsewhere."""

    def __init__(
        self, nodes: list[Any], written: Mapping[Any, Any], ruled: set[Any], held: Mapping[Any, Any]
    ) -> None:
        self._nodes = nodes
        self._written = written
        self._ruled = ruled
        self._graphs = held
        self._held: set[int] = set()

    def run(self, *inputs: Any) -> Any:
        """The outputs of the graph, in a tuple where it gives several; called while they are traced."""
        tracer = get_proxy_mode().tracer
        given = iter(inputs)
        found: dict[Any, Any] = dict(self._graphs)
        for graph in self._graphs.values():
            tracer.root.register_module(f"graph_{len(tracer.root._modules)}", graph)
        self._held = {id(value) for value in inputs}
        for node in self._nodes:
            if node.op == "placeholder":
                found[node] = next(given)
                continue
            if node in self._graphs:
                continue
            arguments, options = torch.fx.node.map_arg((node.args, node.kwargs), found.__getitem__)
            if node.op == "output":
                return tuple(arguments[0]) if isinstance(arguments[0], list | tuple) else arguments[0]
            target = self._written.get(node, node.target)
            if self._stays(target, node):
                found[node] = self._noted(tracer, target, arguments, options, node.meta["val"])
            else:
                found[node] = target(*arguments, **options)
            if target is not node.target:
                _check_kind(found[node], node.meta["val"])
                found[node.args[0]] = found[node]
        raise Unsuited

    def _stays(self, target: Any, node: Any) -> bool:
        if target in CONTROL_FLOW:
            return True
        if not isinstance(target, torch._ops.OpOverload) or target in self._ruled or _is_composite(target):
            return False
        results = pytree.tree_leaves(node.meta.get("val"))
        tensors = [one for one in results if isinstance(one, torch.Tensor)]
        # A tensor stands for one node; sizes are known by what they are.
        return len(tensors) == len(results) > 0 and not any(id(one) in self._held for one in tensors)

    def _noted(self, tracer: Any, target: Any, arguments: Any, options: Any, value: Any) -> Any:
        """A call that is not computed, with its ``value`` as it was."""
        self._held.update(map(id, pytree.tree_leaves(value)))

        def held(one: Any) -> Any:
            return tracer.unwrap_proxy(one) if isinstance(one, (torch.Tensor, *_SIZES)) else one

        call = tracer.create_proxy(
            "call_function",
            target,
            map_aggregate(tuple(arguments), held),
            map_aggregate(options, held),
            name=tracer.graph._target_to_str(getattr(target, "overloadpacket", target).__name__),
        )
        return track_tensor_tree(value, call, constant=None, tracer=tracer)


def _is_composite(operation: Any) -> bool:
    return torch._C._dispatch_has_kernel_for_dispatch_key(operation.name(), "CompositeImplicitAutograd")


def _is_functional(node: Any) -> bool:
    if node.op in ("placeholder", "output") or node.target in CONTROL_FLOW or held_graph(node) is not None:
        return True
    if node.op != "call_function" or isinstance(node.target, torch._ops.HigherOrderOperator):
        return False
    return not isinstance(node.target, torch._ops.OpOverload) or not node.target._schema.is_mutable


def _check_kind(found: Any, wanted: Any) -> None:
    if found.dtype != wanted.dtype or _written_sizes(found) != _written_sizes(wanted):
        raise Unsuited


def _in_place(nodes: list[Any]) -> dict[Any, Any]:
    """For each node that changes its first operand, the operation that gives a new tensor instead.

    Unsuited where what is changed can be seen by way of other tensors.
    """
    shared: dict[Any, set[Any]] = {}
    last = {operand: place for place, node in enumerate(nodes) for operand in node.all_input_nodes}
    written = {}
    for place, node in enumerate(nodes):
        shared[node] = {node}
        if node.target in CONTROL_FLOW or held_graph(node) is not None:
            continue
        if node.op == "get_attr" or isinstance(node.target, torch._ops.HigherOrderOperator):
            raise Unsuited
        if node.op != "call_function":
            continue
        for source in _sources(node):
            alike = shared[source] | shared[node]
            shared.update(dict.fromkeys(alike, alike))
        if isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable:
            if not isinstance(node.meta.get("val"), torch.Tensor):
                raise Unsuited  # such as of a list of tensors
            written[node] = _giving(node.target)
            others = shared[node] - {node, node.args[0]}
            if any(one.op == "placeholder" for one in shared[node]) or any(
                last.get(one, -1) > place for one in others
            ):
                raise Unsuited
            _check_types(node)
    return written


def _check_types(node: Any) -> None:
    """A result of the type of what is changed is what an operation gives of tensors of that type alone."""
    kinds = {getattr(operand.meta.get("val"), "dtype", None) for operand in node.all_input_nodes}
    if len(kinds - {None}) > 1:
        raise Unsuited


def _sources(node: Any) -> list[Any]:
    """The operands whose memory a result may share."""
    if node.target is getitem:
        return [node.args[0]]
    if not isinstance(node.target, torch._ops.OpOverload):
        return []
    schema = node.target._schema
    found = [
        operand
        for argument, operand in zip(schema.arguments, node.args, strict=False)
        if argument.alias_info is not None and isinstance(operand, torch.fx.Node)
    ]
    if torch.Tag.maybe_aliasing_or_mutating in node.target.tags and node.target is not _NORM:
        # Such as dropout, which may give its operand back and does not say so.
        found = [one for one in node.all_input_nodes if _alike(one, node)]
    return found


def _alike(one: Any, other: Any) -> bool:
    """Whether two nodes give tensors of one shape and type."""
    left, right = one.meta.get("val"), other.meta.get("val")
    if not isinstance(left, torch.Tensor) or not isinstance(right, torch.Tensor) or left.dtype != right.dtype:
        return False
    return _written_sizes(left) == _written_sizes(right)


def _written_sizes(tensor: torch.Tensor) -> list[Any]:
    """Extents as numbers and expressions, which are the same where they are equal, without asking for it."""
    return [extent.node.expr if isinstance(extent, torch.SymInt) else extent for extent in tensor.shape]


def _giving(operation: Any) -> Any:
    """The operation that gives a new tensor where ``operation`` changes its first operand."""
    schema = operation._schema
    changed = [argument.is_write for argument in schema.arguments]
    name = schema.name.partition("::")[2].removesuffix("_")
    family = getattr(getattr(torch.ops, operation.namespace), name, None)
    found = getattr(family, schema.overload_name or "default", None)
    if not schema.name.endswith("_") or changed[0] is not True or any(changed[1:]) or found is None:
        raise Unsuited
    if [one.name for one in found._schema.arguments[1:]] != [one.name for one in schema.arguments[1:]]:
        raise Unsuited
    return found


class _Sizes:
    """The open sizes that a graph computes, each once, by nodes in their order."""

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self._known: dict[Any, Any] = {}
        self._forms: dict[Any, Any] = {}

    def settle(self) -> None:
        """Let the first node that computes a size stand for all that do, however they write it.

        A tensor's elements and its strides, which tracing takes for a size that is alike, are products of
        extents: what tensors are in memory is not imported.
        """
        for node in list(self._graph.nodes):
            value = node.meta.get("val")
            if not isinstance(value, torch.SymInt) or node.op != "call_function":
                continue
            form = self._form(value)
            if form not in self._known and node.target not in (_STRIDE, _ELEMENTS):
                self._known[form] = node
                continue
            if form not in self._known:
                with self._graph.inserting_before(node):
                    self._known[form] = self._product(node)
            node.replace_all_uses_with(self._known[form])
            self._graph.erase_node(node)

    def _form(self, size: Any) -> Any:
        """One expression for all that expand to the same sum."""
        written = size.node.expr
        form = self._forms.get(written)
        if form is None:
            form = self._forms[written] = written.expand()
        return form

    def _product(self, node: Any) -> Any:
        """What ``node`` says of a tensor, as a product of its extents; Unsuited where it is none."""
        tensor, shape = node.args[0], node.args[0].meta["val"].shape
        axes = list(range(len(shape)))
        if node.target is _STRIDE:
            # Of the extents that lie further in.
            places = [(_example(one), -axis) for axis, one in enumerate(tensor.meta["val"].stride())]
            axes = [axis for axis in axes if places[axis] < places[node.args[1]]]
        found: Any = 1
        for axis in axes:
            found = _multiplied(self._graph, found, self._extent(tensor, axis, shape[axis]))
        if not isinstance(found, torch.fx.Node) or self._form(found.meta["val"]) != self._form(
            node.meta["val"]
        ):
            raise Unsuited
        return found

    def _extent(self, tensor: Any, axis: int, extent: Any) -> Any:
        if not isinstance(extent, torch.SymInt):
            return extent
        form = self._form(extent)
        if form not in self._known:
            self._known[form] = self._graph.call_function(torch.ops.aten.sym_size.int, (tensor, axis))
            self._known[form].meta["val"] = extent
        return self._known[form]


def _multiplied(graph: Any, left: Any, right: Any) -> Any:
    if isinstance(left, int) and (left == 1 or isinstance(right, int)):
        return left * right if isinstance(right, int) else right
    if isinstance(right, int) and right == 1:
        return left
    product = graph.call_function(mul, (left, right))
    product.meta["val"] = _value(left) * _value(right)
    return product


def _value(one: Any) -> Any:
    return one.meta["val"] if isinstance(one, torch.fx.Node) else one


def _example(extent: Any) -> int:
    return int(extent.node.hint) if isinstance(extent, torch.SymInt) else extent


def with_module(program: Any, module: Any, inputs: list[Any]) -> Any:
    """``module`` as an exported program with the inputs of ``program``."""
    graph = module.graph
    given = graph.find_nodes(op="placeholder")
    names = {old.name for old in inputs}
    for node in graph.nodes:
        if node.name in names and node.op != "placeholder":
            node._rename(f"{node.name}_value")
    for node, old in zip(given, inputs, strict=True):
        node.name = node.target = old.name
        node.meta = dict(old.meta)
    signature = copy(program.graph_signature)
    signature.input_specs = list(signature.input_specs)
    signature.output_specs = [
        _spec(spec, result)
        for spec, result in zip(signature.output_specs, graph.output_node().args[0], strict=True)
    ]
    return torch.export.ExportedProgram(
        root=module,
        graph=graph,
        graph_signature=signature,
        state_dict=program.state_dict,
        range_constraints=dict(program.range_constraints),
        module_call_graph=program.module_call_graph,
        example_inputs=program.example_inputs,
        constants=program.constants,
    )


def _spec(spec: Any, result: Any) -> Any:
    """What is said of an output, of the node that gives it now."""
    found, argument = copy(spec), copy(spec.arg)
    if isinstance(result, torch.fx.Node):
        argument.name = result.name
    found.arg = argument
    return found
