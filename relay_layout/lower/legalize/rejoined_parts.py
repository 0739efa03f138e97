"""Parts of a tensor that are joined again as they were, as the tensor itself.

A block of YOLO or of CSPNet cuts the channels of a tensor in two, computes something of one half, and joins
both halves to it. Joined as one, the tensor is no copy where what is joined is computed in place.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from relay_layout.ir import (
    Expression,
    as_extent,
    is_static,
    operator_name,
    rebuild_functions,
    shape_of,
    value_of,
)
from relay_layout.ops.slice_rules import known_run

_SLICE = "strided_slice"


@dataclass(frozen=True)
class Run:
    """Neighbours along one axis of ``tensor``, from ``begin`` to before ``end``."""

    tensor: relax.Var
    axis: int
    begin: int
    end: int


def merge_parts(module: tvm.IRModule) -> tvm.IRModule:
    """The module with slices in the place of splits, and what is joined of neighbouring slices as one slice.

    Their extents must be known. A slice of a whole tensor becomes that tensor.
    """
    merged = rebuild_functions(module, lambda function: _Merging().visit_expr(function))
    return relax.transform.DeadCodeElimination()(merged)


@mutator
class _Merging(PyExprMutator):
    def visit_tuple_getitem_(self, item: relax.TupleGetItem) -> Expression:
        """An item of a split as a slice."""
        item = super().visit_tuple_getitem_(item)
        split = value_of(self, item.tuple_value)
        runs = _runs_of(split) if operator_name(split) == "split" else None
        return item if runs is None else _slice_of(runs[item.index])

    def visit_call_(self, call: relax.Call) -> Expression:
        """A concatenation of fewer operands, or the only one."""
        call = super().visit_call_(call)
        operands = call.args[0] if operator_name(call) == "concat" else None
        shape = shape_of(call) if operands is not None else None
        if not isinstance(operands, relax.Tuple) or shape is None or call.attrs.axis is None:
            return call
        axis = int(call.attrs.axis) % len(shape)
        fields = list(operands.fields)
        found = self._merged(fields, axis)
        if len(found) == len(fields):
            return call
        return found[0] if len(found) == 1 else relax.op.concat(found, axis)

    def _merged(self, operands: Sequence[Expression], axis: int) -> list[Expression]:
        """The operands of a concatenation along ``axis``, those that are neighbours in a tensor as one."""
        found: list[Expression] = []
        last: Run | None = None
        for operand in operands:
            run = self._run_of(operand)
            if (
                run is not None
                and last is not None
                and run.axis == last.axis == axis
                and run.tensor.same_as(last.tensor)
                and run.begin == last.end
            ):
                last = Run(last.tensor, axis, last.begin, run.end)
                found[-1] = self.builder_.emit(_slice_of(last))
            else:
                last = run
                found.append(operand)
        return found

    def _run_of(self, operand: Expression) -> Run | None:
        value = value_of(self, operand)
        return slice_bounds(value) if operator_name(value) == _SLICE else None


def _runs_of(split: relax.Call) -> list[Run] | None:
    """The parts that a split makes; None of an extent that is not known."""
    data = split.args[0]
    shape = shape_of(data)
    if shape is None or not isinstance(data, relax.Var):
        return None
    axis = int(split.attrs.axis) % len(shape)
    parts = [shape_of(relax.Var("part", field)) for field in split.ty.fields]
    extents = [part[axis] for part in parts if part is not None]
    if len(extents) < len(parts) or not is_static([shape[axis], *extents]):
        return None
    return [Run(data, axis, begin, end) for begin, end in pairwise(accumulate(extents, initial=0))]


def slice_bounds(call: relax.Call) -> Run | None:
    """What a slice of one axis takes; None for others, with strides, and for bounds that are not known."""
    data, *lists = call.args
    shape = shape_of(data)
    if (
        shape is None
        or not isinstance(data, relax.Var)
        or not all(isinstance(one, relax.Tuple) for one in lists)
    ):
        return None
    if any(len(one.fields) != 1 for one in lists):
        return None
    axis, begin, end, stride = [*(as_extent(one.fields[0]) for one in lists), 1][:4]
    if not isinstance(axis, int):
        return None
    bounds = known_run((begin, end, stride), shape[axis % len(shape)])
    return None if bounds is None else Run(data, axis % len(shape), *bounds)


def _slice_of(run: Run) -> Expression:
    extent = (shape_of(run.tensor) or ())[run.axis]
    if (run.begin, run.end) == (0, extent):
        return run.tensor
    return relax.op.strided_slice(run.tensor, [run.axis], [run.begin], [run.end], assume_inbound=True)
