"""ONNX's If: the side that is known to be taken, a selection between what two cheap sides give, or a choice.

Each side is read once, aside of the function around it: what it does goes to that function or to one of its
own when both are known.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm import relax

from relay_layout.bodies import name_called
from relay_layout.frontend.body_building import Aside, Bodies
from relay_layout.frontend.extents.counts import Counts
from relay_layout.frontend.onnx.arithmetic import emptied_extent
from relay_layout.frontend.onnx.inlined import REFUSED, Body, Surroundings, scalar, single
from relay_layout.frontend.onnx.node import Node
from relay_layout.frontend.run_time_loops import run_branch
from relay_layout.frontend.values import (
    TensorSequence,
    Unsupported,
    Value,
    described,
    dtype_of,
    of_one_type,
    same_value,
    shape_of,
)
from relay_layout.ir import operator_name
from relay_layout.ops import is_elementwise

if TYPE_CHECKING:
    import onnx

_ALIKE = "let both branches give the same shape and element type"

_MOST = 16
"""Operators of a side that is computed although it may not be taken. A choice costs about as much as a few
kernels of small tensors, and what is in it is not fused with what is around."""

_ONCE_PER_ELEMENT = frozenset(
    [
        "broadcast_to",
        "concat",
        "expand_dims",
        "flip",
        "full",
        "max",
        "mean",
        "min",
        "ones",
        "permute_dims",
        "prod",
        "reshape",
        "shape_to_tensor",
        "split",
        "squeeze",
        "stack",
        "strided_slice",
        "sum",
        "take",
        "zeros",
    ]
)
"""Operators that read or write each element of a tensor once, beside the elementwise ones."""


@dataclass(frozen=True)
class _Side:
    """What a side gives, and what is to be done for it."""

    values: list[Value]
    done: Aside

    @classmethod
    def read(cls, graph: "onnx.GraphProto", around: Surroundings) -> "_Side":
        """Read a graph without inputs."""
        with around.bodies.aside() as done:
            values = Body(graph, around)()
        return cls(values, done)

    def within(self, bodies: Bodies) -> list[Value]:
        """What the side gives, of which the function under way now does what is due."""
        bodies.emit(self.done)
        return self.values

    def runs_a_loop(self, bodies: Bodies) -> bool:
        """Whether there is a loop in it that may never end, as far as is known."""
        return bodies.run_a_loop(name_called(binding.value) for binding in self.done.bindings)

    def is_cheap(self) -> bool:
        """Whether computing it in vain costs less than a choice."""
        return len(self.done.bindings) <= _MOST and all(map(_is_cheap, self.done.bindings))


def branch(node: Node, around: Surroundings) -> list[Value]:
    """The results of an If: of a side that is known to be taken, of both and a choice between these where
    that is cheap, else of a branch at run time.
    """
    condition, bodies = node.input(0), around.bodies
    if isinstance(condition, np.ndarray):
        return _taken(node, around, "then_branch" if single(condition).item() else "else_branch")
    tested = around.tested_extent(condition)
    if tested is not None and tested[1] == 1 and _squeezes_or_not(node):
        return _taken(node, around, "then_branch")
    sides = [_Side.read(node.attributes[name], around) for name in ("then_branch", "else_branch")]
    pairs = list(zip(sides[0].values, sides[1].values, strict=True))
    extent = None if tested is None or tested[1] != 0 else emptied_extent(tested[0])
    # A tensor without elements needs a branch of its own in other runtimes alone.
    if extent is not None and all(
        _agree_where_empty(around.counts, one, other, extent) for one, other in pairs
    ):
        return sides[1].within(bodies)
    chosen = scalar(node, condition)
    if _are_selected(bodies, sides, pairs):
        for side in sides:
            side.within(bodies)
        return [selected(node, chosen, one, other) for one, other in pairs]
    return run_branch(node, bodies, chosen, [partial(side.within, bodies) for side in sides])


def _taken(node: Node, around: Surroundings, side: str) -> list[Value]:
    """What a side gives that is known to be taken."""
    return Body(node.attributes[side], around, taken=True)()


def _squeezes_or_not(node: Node) -> bool:
    """Whether one side takes an axis from a tensor, as PyTorch's ``squeeze`` of an open extent does.

    What follows fits one of both ranks, that of the example it was exported with: the axis has to have
    the one element for which it goes.
    """
    sides = [
        [each for each in node.attributes[name].node if each.op_type != "Constant"]
        for name in ("then_branch", "else_branch")
    ]
    return [[each.op_type for each in side] for side in sides] == [["Squeeze"], ["Identity"]] and (
        sides[0][0].input[0] == sides[1][0].input[0]
    )


def selected(node: Node, condition: Value, one: Value, other: Value) -> Value:
    """``one`` where ``condition``, a boolean of no dimension, holds, and ``other`` where it does not."""
    if same_value(one, other):
        return one
    if isinstance(one, TensorSequence) and isinstance(other, TensorSequence):
        if len(one.tensors) != len(other.tensors) or one.dtype != other.dtype:
            raise Unsupported(
                f"chooses at run time between sequences that differ in length, {REFUSED}: {_ALIKE}"
            )
        pairs = zip(one.tensors, other.tensors, strict=True)
        return TensorSequence(tuple(selected(node, condition, *pair) for pair in pairs), one.dtype)
    if not of_one_type(one, other):
        raise Unsupported(
            f"chooses at run time between {described(one)} and {described(other)}, {REFUSED}: {_ALIKE}"
        )
    chosen = relax.op.where(condition, node.expression(one), node.expression(other))
    return node.emit(chosen, "chosen")


def _agree_where_empty(counts: Counts, one: Value, other: Value, extent: Any) -> bool:
    """Whether two values are tensors of the same type without elements where the variable ``extent`` is 0."""
    if any(isinstance(value, TensorSequence) for value in (one, other)):
        return False
    if dtype_of(one) != dtype_of(other) or len(shape_of(one)) != len(shape_of(other)):
        return False
    left, right = (
        [counts.most_where_empty(size, extent) for size in shape_of(value)] for value in (one, other)
    )
    return left == right and 0 in left


def _are_selected(bodies: Bodies, sides: Sequence[_Side], pairs: Sequence[tuple[Value, Value]]) -> bool:
    """Whether both sides are computed: what a choice cannot give, at any cost that ends."""
    if any(side.runs_a_loop(bodies) for side in sides):
        return False
    values = [value for pair in pairs for value in pair]
    if any(value is None or isinstance(value, TensorSequence) for value in values):
        return all(_is_selectable(one, other) for one, other in pairs)
    return all(side.is_cheap() for side in sides) and all(of_one_type(one, other) for one, other in pairs)


def _is_selectable(one: Value, other: Value) -> bool:
    """Whether one of two can be taken when both are computed; sequences are compared when that is done."""
    tensors = [value for value in (one, other) if not isinstance(value, TensorSequence)]
    return one is other or len(tensors) != 2 or of_one_type(one, other)


def _is_cheap(binding: relax.Binding) -> bool:
    if not isinstance(binding, relax.VarBinding):
        return False
    if not isinstance(binding.value, relax.Call):
        return True
    operator = operator_name(binding.value)
    return operator in _ONCE_PER_ELEMENT or is_elementwise(operator)
