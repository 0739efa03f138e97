"""How many rows of a result are read at all: exporters suppress all boxes, and keep the first few then."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from relay_layout.frontend.onnx.graphs import subgraphs
from relay_layout.frontend.values import FAR, Array

if TYPE_CHECKING:
    import onnx

_ROW_BY_ROW = frozenset({"Cast", "Identity"})


class RowLimits:
    """What the nodes of a graph, those of branches included, read of results whose rows are in order."""

    def __init__(
        self, nodes: Iterable["onnx.NodeProto"], tensors: Mapping[str, Array], outputs: Sequence[str]
    ) -> None:
        self._tensors = tensors
        # By name what it stands for in each graph that uses it: a constant, or None for anything else.
        self._made: dict[str, list[onnx.TensorProto | None]] = defaultdict(list)
        self._outputs = frozenset(outputs)
        self._readers: dict[str, list[onnx.NodeProto]] = defaultdict(list)
        self._given_out: dict[str, list[str]] = defaultdict(list)
        self._read(nodes)

    def _read(self, nodes: Iterable["onnx.NodeProto"]) -> None:
        for node in nodes:
            for name in set(node.input):
                self._readers[name].append(node)
            for name in node.output:
                self._made[name].append(_constant(node))
            for graph in subgraphs(node):
                for value in graph.input:
                    self._made[value.name].append(None)
                self._read(graph.node)
                for inner, outer in zip(graph.output, node.output, strict=False):
                    self._given_out[inner.name].append(outer if node.op_type == "If" else "")

    def is_read(self, name: str) -> bool:
        """Whether anything reads a result at all."""
        return name in self._outputs or name in self._readers or name in self._given_out

    def rows(self, name: str, seen: frozenset[str] = frozenset()) -> int | None:
        """The number of first rows of a result that anything reads; None where it may be all.

        ``seen`` are names on the way to this one.
        """
        if name in self._outputs or name in seen:
            return None
        seen |= {name}
        limits = [self.rows(outer, seen) if outer else None for outer in self._given_out.get(name, ())]
        limits += [self._rows_read(node, name, seen) for node in self._readers.get(name, ())]
        known = [limit for limit in limits if limit is not None]
        return max(known) if known and len(known) == len(limits) else None

    def _rows_read(self, node: "onnx.NodeProto", name: str, seen: frozenset[str]) -> int | None:
        if list(node.input).count(name) != 1 or node.input[0] != name:
            return None
        match node.op_type:
            case "Slice":
                return self._end(node)
            case "Squeeze":
                passes = self._integers(node, 1) == [1]
            case "Gather":
                passes = any(attribute.name == "axis" and attribute.i == 1 for attribute in node.attribute)
            case operator:
                passes = operator in _ROW_BY_ROW
        return self.rows(node.output[0], seen) if passes else None

    def _end(self, node: "onnx.NodeProto") -> int | None:
        """Where a slice of the first rows ends."""
        starts, ends = self._integers(node, 1), self._integers(node, 2)
        plain = self._integers(node, 3, [0]) == [0] and self._integers(node, 4, [1]) == [1]
        if not plain or starts is None or ends is None or len(starts) != 1 or len(ends) != 1:
            return None
        return ends[0] if starts[0] >= 0 and 0 <= ends[0] < FAR else None

    def _integers(
        self, node: "onnx.NodeProto", index: int, default: list[int] | None = None
    ) -> list[int] | None:
        """An input of integers that is known; ``default`` where it is left out."""
        if index >= len(node.input) or not node.input[index]:
            return default
        name = node.input[index]
        if name in self._made:
            from onnx import numpy_helper

            constants = [tensor for tensor in self._made[name] if tensor is not None]
            found = [numpy_helper.to_array(tensor).reshape(-1).tolist() for tensor in constants]
            is_known = len(found) == len(self._made[name]) and all(other == found[0] for other in found)
            return found[0] if is_known else None
        return self._tensors[name].reshape(-1).tolist() if name in self._tensors else None


def _constant(node: "onnx.NodeProto") -> "onnx.TensorProto | None":
    """What a node holds, where it is a tensor and nothing else."""
    if node.op_type != "Constant":
        return None
    return next((attribute.t for attribute in node.attribute if attribute.name == "value"), None)
