"""The original function as values and the calls that compute them."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tvm import relax
from tvm_ffi import structural_hash

from relay_layout.graph import MATCH_CAST, Graph, Node, Tree, Value, leaves
from relay_layout.verify.comparing import Mismatch, Provided
from relay_layout.verify.digits import Dims, over, plain, regrouped, shape_of_dims, through
from relay_layout.verify.expansions import expansion, passed_on
from relay_layout.verify.matching import result_dims
from relay_layout.verify.movement import is_movement, merged, moved
from relay_layout.verify.symbols import extents


@dataclass(frozen=True)
class Held:
    """A tensor as digits of a value of the original function, its root.

    Roots are parameters, constants, and results of calls that compute; what only moves elements gives
    other dims over the same root. A constant of the converted function is its own root until a call says
    which original constant it should be. ``dims`` is None for a tensor of unknown rank or without elements,
    which is its root.
    ``origin`` names the bindings that decided how it lies, for messages. With a ``frame``, which is how some
    dimensions lie over the root, ``dims`` are digits of those: so a part of a dimension that several of the
    root make up can be said even where their extents do not divide.
    """

    root: Value
    dims: Dims | None
    origin: tuple[str, ...]
    frame: Dims | None = None


class Originals:
    """Where the elements of every original tensor lie, and the calls that compute, to be found by operands.

    ``converted`` says which operators there are still as many of: others may have become arithmetic.
    ``passed`` are results in whose place an operand was put.
    """

    def __init__(self, graph: Graph, converted: Graph, passed: Mapping[Value, Value]) -> None:
        self._passed = passed
        self._held: dict[Value, Held] = {}
        # By operator and by the roots of the operands.
        self._calls: dict[tuple[Any, ...], list[Node]] = {}
        self._named: dict[tuple[str, str], Node] = {}
        # By all of a call: what may be one computation written twice.
        self._alike: dict[tuple[Any, ...], list[Node]] = {}
        self.nodes = live(graph)
        kept = Counter(node.operator for node in converted.nodes)
        there = Counter(node.operator for node in self.nodes)
        for node in self.nodes:
            self._read(node)
            self._named[node.operator, node.name] = node
            if kept[node.operator] < there[node.operator]:
                self._expand(node)

    def held(self, value: Value) -> Held:
        """An original tensor over its root."""
        if value not in self._held:
            self._held[value] = Held(value, plain_of(value), ())
        return self._held[value]

    def candidates(self, operator: str, operands: list[Held]) -> list[Node]:
        """The calls of an operator on these roots."""
        return self._calls.get((operator, *map(root_key, operands)), [])

    def called(self, operator: str, name: str) -> Node | None:
        """The call of an operator that was bound to a name."""
        return self._named.get((operator, name))

    def _read(self, node: Node) -> None:
        """Describe an original node's results."""
        held = [self.held(value) for value in node.operands]
        if len(held) == 1 and len(node.results) == 1:
            found = moved_from(node, held[0])
            if found is not None:
                self._held[node.results[0]] = found
                return
        candidates = self._calls.setdefault((node.operator, *map(root_key, held)), [])
        alike = self._alike.setdefault(_fingerprint(node, held), [])
        twin = next((other for other in alike if self._is_twin(node, other)), None)
        passed = passed_on(node)
        for place, value in enumerate(node.results):
            if twin is not None:
                self._held[value] = self._held[twin.results[place]]
            elif place in passed:
                self._held[value] = self.held(node.operands[passed[place]])
            elif value in self._passed:
                self._held[value] = self.held(self._passed[value])
            elif value not in self._held:
                self._held[value] = Held(value, plain_of(value), ())
        candidates.append(node)
        alike.append(node)

    def _expand(self, node: Node) -> None:
        """Let the arithmetic that an operator stands for be found in its place too."""
        arithmetic = expansion(node)
        if arithmetic is None:
            return
        for parameter, value in zip(arithmetic.parameters, node.operands, strict=True):
            self._held[parameter] = self.held(value)
        (result,) = leaves(arithmetic.output)
        self._held[result] = self._held[node.results[0]]
        for part in arithmetic.nodes:
            self._read(part)

    def _is_twin(self, node: Node, other: Node) -> bool:
        """Whether two original calls are one computation written twice, which has one root then."""
        if not node.operator or not is_pure(node):
            return False
        provided = [
            Provided(value, peer, dims, (), never)
            for value, peer in zip(node.operands, other.operands, strict=True)
            if (dims := relative(self.held(value), self.held(peer))) is not None
        ]
        if len(provided) != len(node.operands) or any(
            entry.dims != plain_of(entry.original) for entry in provided
        ):
            return False
        try:
            result_dims(other, node, provided, lambda variable: variable, _no_guess)
        except Mismatch:
            return False
        return True


def _fingerprint(node: Node, held: list[Held]) -> tuple[Any, ...]:
    """Equal for calls that are the same, and unequal for most that are not."""
    if not node.operator:
        return (node,)
    rest = tuple(structural_hash(leaf) for leaf in _others(node.tree))
    if node.operator == MATCH_CAST:
        return (node,)
    attributes = structural_hash(node.expression.attrs) if node.expression.attrs is not None else 0
    return (node.operator, tuple((entry.root, entry.dims, entry.frame) for entry in held), attributes, rest)


def _others(tree: Tree) -> Iterator[Any]:
    """The leaves of a tree that are no tensors."""
    if isinstance(tree, tuple):
        for branch in tree:
            yield from _others(branch)
    elif not isinstance(tree, Value):
        yield tree


def relative(new: Held, old: Held) -> Dims | None:
    """How ``new`` lies over the dimensions of ``old``; None where they do not have one root."""
    if new.root is not old.root or (new.dims is None) != (old.dims is None):
        return None
    if new.dims is None or old.dims is None:
        return ()
    if new.frame is None and old.frame is None:
        return over(new.dims, old.dims)
    # Both in terms of one frame, if that can be said.
    before, after = old.dims, new.dims
    frame = new.frame or old.frame or ()
    if old.frame is None:
        found = over(before, frame)
    elif old.frame == frame:
        found = before
    else:
        between = over(old.frame, frame)
        found = through(before, between) if between is not None else None
    reached = over(after, frame) if new.frame is None else after
    return over(reached, found) if found is not None and reached is not None else None


def moved_from(node: Node, held: Held) -> Held | None:
    """The result of a call that only moves its operand; None for any other call."""
    if held.dims is None or not is_movement(node):
        return None
    dims = moved(node, held.dims)
    if dims is None and held.frame is None:
        # Parts of what the operand's own dimensions are, or of several that the result takes together.
        for frame in (held.dims, merged(held.dims, node)):
            own = regrouped(plain(shape_of_dims(frame)), shape_of_dims(held.dims))
            dims = moved(node, own) if own is not None else None
            if dims is not None:
                return Held(held.root, dims, held.origin, frame)
        return None
    if dims is None or held.frame is None:
        return Held(held.root, dims, held.origin) if dims is not None else None
    whole = through(dims, held.frame)
    if whole is not None:
        return Held(held.root, whole, held.origin)
    return Held(held.root, dims, held.origin, held.frame)


def live(graph: Graph) -> list[Node]:
    """The nodes that the result depends on, or that have effects, in order."""
    needed = set(leaves(graph.output))
    used = set(_variables_of(graph.output))
    found = []
    for node in reversed(graph.nodes):
        if needed.isdisjoint(node.results) and node.variable not in used and is_pure(node):
            continue
        found.append(node)
        needed.update(node.operands)
        if node.operator:
            used.update(_variables_of(node.tree))
        else:
            used.update(relax.analysis.free_vars(node.expression))
    return found[::-1]


def _variables_of(tree: Tree) -> Iterator[relax.Var]:
    """Variables in a tree that are no tensors."""
    return (leaf for leaf in _others(tree) if isinstance(leaf, relax.Var))


def is_pure(node: Node) -> bool:
    """Whether a node may go where nothing reads it."""
    if not node.operator or node.operator == MATCH_CAST:
        return node.operator == MATCH_CAST
    return bool(node.expression.op.get_attr("FPurity"))


def root_key(held: Held) -> Any:
    """By what calls on a tensor are found: constants, and tensors without elements, are all alike there."""
    if held.root.is_empty:
        return "empty"
    return "constant" if held.root.constant is not None else held.root


def plain_of(value: Value) -> Dims | None:
    """The dims of a tensor that lies as its shape says; None of an unknown shape or without elements."""
    return plain(extents(value.shape)) if value.shape is not None and not value.is_empty else None


def never(dims: Dims) -> bool:
    """What says of a tensor that it holds the right values in no order."""
    return False


def _no_guess(value: Value) -> Iterator[Dims]:
    return iter(())
