"""Graphs of an ONNX file and those that their nodes hold: which nodes there are, and what they need."""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from relay_layout.errors import ModelError
from relay_layout.frontend.messages import reason

if TYPE_CHECKING:
    import onnx

OWN_DOMAINS = "", "ai.onnx"
"""The domain of ONNX's own operators, by both of its names."""


def opset_version(model: "onnx.ModelProto | onnx.FunctionProto") -> int | None:
    """The version of ONNX's own operators in a model or a function of its own; None where it says none."""
    return max((entry.version for entry in model.opset_import if entry.domain in OWN_DOMAINS), default=None)


def place_of(node: "onnx.NodeProto") -> str:
    """A node as messages name it: ``node 'conv1' (Conv)``."""
    return f"node '{node.name or node.output[0]}' ({node.op_type})"


def subgraphs(node: "onnx.NodeProto") -> Iterator["onnx.GraphProto"]:
    """The graphs that a node holds itself: branches, or the body of a loop."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def with_subgraphs(nodes: Iterable["onnx.NodeProto"]) -> Iterator["onnx.NodeProto"]:
    """Nodes, each followed by those of its subgraphs."""
    for node in nodes:
        yield node
        for graph in subgraphs(node):
            yield from with_subgraphs(graph.node)


def used_names(node: "onnx.NodeProto") -> set[str]:
    """The names a node reads, and all that its subgraphs read, of their own nodes too."""
    names = set(node.input)
    for graph in subgraphs(node):
        for inner in graph.node:
            names |= used_names(inner)
        names.update(output.name for output in graph.output)
    return names


def in_order(nodes: Sequence["onnx.NodeProto"]) -> Sequence["onnx.NodeProto"]:
    """Nodes, each after those whose outputs it reads, as ONNX asks for; circles are left as they are."""
    producers = {name: place for place, node in enumerate(nodes) for name in node.output if name}
    awaited = [{producers[name] for name in used_names(node) if name in producers} for node in nodes]
    if all(max(found, default=-1) < place for place, found in enumerate(awaited)):
        return nodes
    readers: dict[int, list[int]] = {}
    for place, found in enumerate(awaited):
        for producer in found:
            readers.setdefault(producer, []).append(place)
    # Of the nodes that may come next the first one, so that an order that is right is kept.
    ready = [place for place, found in enumerate(awaited) if not found]
    ordered = []
    while ready:
        place = heapq.heappop(ready)
        ordered.append(nodes[place])
        for reader in readers.get(place, ()):
            awaited[reader].discard(place)
            if not awaited[reader]:
                heapq.heappush(ready, reader)
    return ordered if len(ordered) == len(nodes) else nodes


def needed(nodes: Sequence["onnx.NodeProto"], outputs: Iterable[str]) -> list["onnx.NodeProto"]:
    """The nodes that ``outputs`` depend on, in the given order."""
    wanted = set(outputs)
    kept = []
    for node in reversed(nodes):
        if wanted.intersection(node.output):
            wanted.update(used_names(node))
            kept.append(node)
    return kept[::-1]


def dependent(
    nodes: Iterable["onnx.NodeProto"], names: Iterable[str], *, apart: bool
) -> tuple[list["onnx.NodeProto"], list["onnx.NodeProto"]]:
    """The nodes that depend on ``names``, and those that do not, both in the given order.

    Without ``apart`` nodes that hold graphs count as dependent.
    """
    known = set(names)
    depending, others = [], []
    for node in nodes:
        if known.isdisjoint(used_names(node)) and (apart or not any(subgraphs(node))):
            others.append(node)
        else:
            known.update(name for name in node.output if name)
            depending.append(node)
    return depending, others


def read_tensors(graph: "onnx.GraphProto", label: str) -> dict[str, Any]:
    """Initializers as numpy arrays; ModelError for one that is damaged or holds strings."""
    from onnx import TensorProto, numpy_helper

    result = {}
    sparse = {tensor.values.name: tensor for tensor in graph.sparse_initializer}
    for tensor in (*graph.initializer, *(tensor.values for tensor in sparse.values())):
        place = f"{label}: initializer '{tensor.name}'"
        if tensor.data_type not in TensorProto.DataType.values():
            raise ModelError(f"{place} has the unknown element type {tensor.data_type}")
        if any(extent < 0 for extent in tensor.dims):
            raise ModelError(f"{place} is damaged: it has the shape {list(tensor.dims)}")
        try:
            known = sparse.get(tensor.name)
            array = numpy_helper.to_array(tensor) if known is None else dense(known)
        except Exception as error:
            raise ModelError(f"{place} is damaged: {reason(error)}") from None
        if array.dtype.kind in "OSUc":
            raise ModelError(
                f"{place} holds strings or complex numbers, which is not supported: "
                "compute what it is for outside of the model"
            )
        result[tensor.name] = array
    return result


def dense(tensor: "onnx.SparseTensorProto") -> Any:
    """A sparse tensor as a numpy array; its places are [N], through the whole tensor, or [N, rank]."""
    from onnx import numpy_helper

    values, places = numpy_helper.to_array(tensor.values), numpy_helper.to_array(tensor.indices)
    array = np.zeros(tuple(tensor.dims), values.dtype)
    if places.ndim > 1:
        places = np.ravel_multi_index(tuple(places.T), array.shape)
    array.reshape(-1)[places] = values
    return array
