"""How convolutions and products that read the same data become one, and its result theirs again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import relax
from tvm_ffi import structural_equal

from relay_layout.ir import (
    Emit,
    Expression,
    Extent,
    dtype_of,
    ints,
    operator_name,
    out_layout,
    same_extent,
    same_extents,
    shape_of,
    with_attributes,
)

Bound = Callable[[relax.Var], Expression | None]
"""What a variable is bound to."""


@dataclass(frozen=True)
class Root:
    """A convolution or product of ``data`` whose results have channels along ``axis``.

    The weight has them along ``outputs``. ``turned`` says that the product reads the weight with its last two
    axes exchanged.
    """

    call: relax.Call
    data: relax.Var
    weight: Expression
    axis: int
    outputs: int
    turned: bool = False

    def of(self, emit: Emit, data: Expression, weight: Expression) -> Expression:
        """The same of other operands."""
        if self.turned:
            rank = len(shape_of(weight) or ())
            weight = emit(relax.op.permute_dims(weight, [*range(rank - 2), rank - 1, rank - 2]))
        return with_attributes(self.call, [data, weight])


Find = Callable[[relax.Call, Bound], Root | None]
"""What is to be joined in a call; None for other calls."""


class Joining(ABC):
    """A way to make one call of several, of elementwise calls behind them as well.

    Calls of one step have results of the same types but for what :meth:`joins` leaves open.
    """

    def __init__(self, root: Find) -> None:
        self.root = root

    @abstractmethod
    def joins(self, one: Root, other: Root) -> bool:
        """Whether two that read the same data can be one."""

    @abstractmethod
    def joined(self, emit: Emit, roots: Sequence[Root]) -> Expression:
        """One call for all."""

    @abstractmethod
    def operands_fit(self, root: Root, operands: Sequence[Expression], results: Sequence[Expression]) -> bool:
        """Whether operands of elementwise calls can be one, which :meth:`operand` gives."""

    @abstractmethod
    def operand(
        self, emit: Emit, root: Root, operands: Sequence[Expression], results: Sequence[Expression]
    ) -> Expression:
        """One operand for all."""

    @abstractmethod
    def parts(
        self, emit: Emit, root: Root, joined: relax.Var, results: Sequence[Expression]
    ) -> list[Expression]:
        """The results of the calls, from the one that took their place."""


class Concatenated(Joining):
    """Channels of all results behind one another."""

    def joins(self, one: Root, other: Root) -> bool:
        """Weights may have any number of output channels; all else is the same."""
        if not _same_but(one.weight, other.weight, one.outputs) or dtype_of(one.weight) != dtype_of(
            other.weight
        ):
            return False
        return bool(structural_equal(one.call.attrs, other.call.attrs)) and one.turned == other.turned

    def joined(self, emit: Emit, roots: Sequence[Root]) -> Expression:
        """A call with a weight of all channels."""
        first = roots[0]
        weight = emit(relax.op.concat([root.weight for root in roots], first.outputs))
        return first.of(emit, first.data, weight)

    def operands_fit(self, root: Root, operands: Sequence[Expression], results: Sequence[Expression]) -> bool:
        """Each operand has all channels of its result, and otherwise the extents of the others."""
        place = _place(root, operands[0], results[0])
        if place < 0 or len({dtype_of(operand) for operand in operands}) > 1:
            return False
        return all(
            _same_but(operand, operands[0], place)
            and same_extents(
                _extents(operand)[place : place + 1], _extents(result)[root.axis : root.axis + 1]
            )
            for operand, result in zip(operands, results, strict=True)
        )

    def operand(
        self, emit: Emit, root: Root, operands: Sequence[Expression], results: Sequence[Expression]
    ) -> Expression:
        """The operands behind one another."""
        return emit(relax.op.concat(list(operands), _place(root, operands[0], results[0])))

    def parts(
        self, emit: Emit, root: Root, joined: relax.Var, results: Sequence[Expression]
    ) -> list[Expression]:
        """A slice for each."""
        del emit
        parts, begin = [], 0
        for result in results:
            end = begin + _extents(result)[root.axis]
            parts.append(relax.op.strided_slice(joined, [root.axis], [begin], [end]))
            begin = end
        return parts


class Stacked(Joining):
    """Products as those of one batch, all of the same data."""

    def joins(self, one: Root, other: Root) -> bool:
        """Weights are of one shape."""
        same = same_extents(_extents(one.weight), _extents(other.weight))
        return same and _are_one_operator(one, other)

    def joined(self, emit: Emit, roots: Sequence[Root]) -> Expression:
        """A product of batches."""
        first = roots[0]
        data = emit(relax.op.stack([root.data for root in roots], 0))
        return first.of(emit, data, emit(relax.op.stack([root.weight for root in roots], 0)))

    def operands_fit(self, root: Root, operands: Sequence[Expression], results: Sequence[Expression]) -> bool:
        """All operands are of one shape."""
        del root, results
        first = _extents(operands[0])
        return all(
            shape_of(operand) is not None
            and same_extents(_extents(operand), first)
            and dtype_of(operand) == dtype_of(operands[0])
            for operand in operands
        )

    def operand(
        self, emit: Emit, root: Root, operands: Sequence[Expression], results: Sequence[Expression]
    ) -> Expression:
        """The operands as one batch, with all dimensions of the results."""
        del root
        missing = len(_extents(results[0])) - len(_extents(operands[0]))
        if missing:
            operands = [emit(relax.op.expand_dims(operand, list(range(missing)))) for operand in operands]
        return emit(relax.op.stack(list(operands), 0))

    def parts(
        self, emit: Emit, root: Root, joined: relax.Var, results: Sequence[Expression]
    ) -> list[Expression]:
        """One of the batch for each."""
        del root
        split = emit(relax.op.split(joined, len(results), 0))
        return [
            relax.op.squeeze(emit(relax.TupleGetItem(split, place)), [0]) for place in range(len(results))
        ]


def convolution(call: relax.Call, bound: Bound) -> Root | None:
    """An nn.conv2d without groups, in layouts without blocks."""
    del bound
    if operator_name(call) != "nn.conv2d" or int(call.attrs.groups) != 1:
        return None
    kernel, out = str(call.attrs.kernel_layout), out_layout(call.attrs)
    if not (kernel.isupper() and out.isupper()):
        return None
    return _root(call, call.args[1], out.index("C"), kernel.index("O"))


def dense(call: relax.Call, bound: Bound) -> Root | None:
    """What nn.dense is: a product with one matrix."""
    return _product(call, bound, (1, 2, 3, 4, 5, 6), 2)


def dense_of_matrices(call: relax.Call, bound: Bound) -> Root | None:
    """The same, of data that is a matrix as well."""
    return _product(call, bound, (2,), 2)


def batch_matmul(call: relax.Call, bound: Bound) -> Root | None:
    """What nn.batch_matmul is: a product of two batches of matrices."""
    return _product(call, bound, (3,), 3)


def _product(call: relax.Call, bound: Bound, data_ranks: Sequence[int], rank: int) -> Root | None:
    if operator_name(call) != "matmul":
        return None
    data, weight = call.args
    shape, extents = shape_of(data), shape_of(weight)
    if shape is None or extents is None or len(shape) not in data_ranks or len(extents) != rank:
        return None
    axis = max(len(shape), rank) - 1
    source = bound(weight) if isinstance(weight, relax.Var) else None
    if source is not None and operator_name(source) == "permute_dims" and _exchanges_last(source, rank):
        return _root(call, source.args[0], axis, rank - 2, turned=True)
    return _root(call, weight, axis, rank - 1)


def _exchanges_last(call: relax.Call, rank: int) -> bool:
    axes = list(reversed(range(rank))) if call.attrs.axes is None else ints(call.attrs.axes)
    return [axis % rank for axis in axes] == [*range(rank - 2), rank - 1, rank - 2]


def _root(
    call: relax.Call, weight: Expression, axis: int, outputs: int, *, turned: bool = False
) -> Root | None:
    """None unless the numbers of channels are known."""
    result, extents = shape_of(call), shape_of(weight)
    if not isinstance(call.args[0], relax.Var) or result is None or extents is None:
        return None
    if not isinstance(result[axis], int) or not isinstance(extents[outputs], int):
        return None
    return Root(call, call.args[0], weight, axis, outputs, turned)


def _place(root: Root, operand: Expression, result: Expression) -> int:
    """Which dimension of an operand lies along the channels of a result; below 0 where none does."""
    shape = shape_of(operand)
    return -1 if shape is None else root.axis - len(_extents(result)) + len(shape)


def _are_one_operator(one: Root, other: Root) -> bool:
    """Whether two differ in nothing but the shapes of their weights."""
    kinds = {(root.turned, dtype_of(root.weight)) for root in (one, other)}
    return len(kinds) == 1 and bool(structural_equal(one.call.attrs, other.call.attrs))


def _same_but(one: Expression, other: Expression, axis: int) -> bool:
    """Whether two tensors have the same extents, all but that along one axis."""
    left, right = _extents(one), _extents(other)
    return len(left) == len(right) and all(
        at == axis or same_extent(left[at], right[at]) for at in range(len(left))
    )


def _extents(expression: Expression) -> tuple[Extent, ...]:
    return shape_of(expression) or ()
