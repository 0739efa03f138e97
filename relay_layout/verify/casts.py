"""Casts that convert a tensor for a transform only, and back."""

from dataclasses import replace

from relay_layout.graph import Node, Value
from relay_layout.verify.digits import through
from relay_layout.verify.originals import Held, Originals


class Casts:
    """Truth values as small integers, which TVM can move, and those as truth values again."""

    def __init__(self, originals: Originals) -> None:
        self._originals = originals
        self._cast: dict[Value, Value] = {}
        self._back: dict[Value, Value] = {}

    def adjusted(self, node: Node, held: Held) -> Held | None:
        """The result of such a cast; None for any other call."""
        if node.operator != "astype":
            return None
        before, after = node.operands[0].dtype, node.results[0].dtype
        if (before, after) == ("bool", "int8"):
            if held.root not in self._cast:
                root = held.root
                self._cast[root] = Value(root.name, root.shape, after, root.expression)
                self._back[self._cast[root]] = root
            return replace(held, root=self._cast[held.root])
        if (before, after) == ("int8", "bool"):
            return self._undone(held)
        return None

    def _undone(self, held: Held) -> Held | None:
        root = self._back.get(held.root)
        if root is None:
            # The original function may have made the same cast.
            producer = held.root.producer
            if producer is None or producer.operator != "astype" or producer.operands[0].dtype != "bool":
                return None
            source = self._originals.held(producer.operands[0])
            if held.dims is None or source.dims is None or held.frame is not None or source.frame is not None:
                return None
            # Dimensions of the cast tensor are those of its operand.
            return Held(source.root, through(held.dims, source.dims), held.origin)
        return replace(held, root=root)
