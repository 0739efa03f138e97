"""Sums, extrema and other reductions over axes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm import relax, topi

from relay_layout.errors import ModelError
from relay_layout.ir import Expression, dtype_of, scalar
from relay_layout.relay.operators.attributes import Attributes
from relay_layout.relay.operators.axis_arguments import axes_of, one_axis_to_list
from relay_layout.relay.operators.direct import plain, relax_function
from relay_layout.relay.operators.operator import Export, Operator, Scope, extents, rank_of, scalar_like
from relay_layout.relay.syntax.tree import Call

_IDENTICAL = ("sum", "max", "min", "prod")
_EXTREMA = ("max", "min")


def _reduced(given: Attributes, rank: int) -> tuple[int, ...] | None:
    """The axes to reduce, ascending; None for all of them where the call names none."""
    if given.axis is None or given.axis == ():
        if given.exclude and given.axis is None:
            raise ModelError("exclude needs an axis to keep")
        return None
    axes = sorted(axes_of(given.axis, rank))
    return tuple(axis for axis in range(rank) if axis not in axes) if given.exclude else tuple(axes)


def _reduce(function: Callable[..., Expression], data: Expression, given: Attributes) -> Expression:
    rank = rank_of(data)
    axes = _reduced(given, rank)
    if rank == 0 or axes == ():
        return data
    return function(data, axes, given.keepdims)


def _same(name: str) -> Operator:
    """A row for a reduction that Relax has with the same result."""

    def build(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
        data = operands[0]
        if dtype_of(data) == "bool" and name in _EXTREMA:
            return _of_truths(scope, relax_function(name), data, given)
        return _reduce(relax_function(name), data, given)

    return _row(name, build, relax_names=(name,), export=_export)


def _mean(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    data = operands[0]
    if dtype_of(data) != "float16":
        return _reduce(relax.op.mean, data, given)
    # Relay adds in single precision: the sum may exceed what half precision holds.
    wide = scope.emit(relax.op.astype(data, "float32"))
    return relax.op.astype(_reduce(relax.op.mean, wide, given), "float16")


def _logical(function: Callable[..., Expression]) -> Callable[..., Expression]:
    """All or any: the least or the largest of zeros and ones, for Relax has no such reduction of bool."""

    def build(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
        data = operands[0]
        if dtype_of(data) != "bool":
            raise ModelError(f"takes bool, not {dtype_of(data)}")
        return _of_truths(scope, function, data, given)

    return build


def _of_truths(
    scope: Scope, function: Callable[..., Expression], data: Expression, given: Attributes
) -> Expression:
    numbers = scope.emit(relax.op.astype(data, "int8"))
    return relax.op.astype(_reduce(function, numbers, given), "bool")


def _arg(name: str) -> Callable[..., Expression]:
    """The index of an extreme. Relax gives int64 and the first of equals, for one axis or all."""

    def build(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
        data = operands[0]
        rank = rank_of(data)
        if rank == 0:
            raise ModelError("takes a tensor with dimensions")
        axes = _reduced(given, rank)
        if axes == ():
            raise ModelError("leaves no axis to reduce")
        if dtype_of(data) == "bool":
            data = scope.emit(relax.op.astype(data, "int8"))
        if given.select_last_index or (axes is not None and len(axes) > 1):
            chosen = list(range(rank)) if axes is None else list(axes)

            def indices(values: Any) -> Any:
                found = getattr(topi, name)(values, chosen, given.keepdims, given.select_last_index)
                return topi.cast(found, "int32")

            return scope.builder.call_te(indices, data, primfunc_name_hint=name)
        axis = None if axes is None else axes[0]
        return relax.op.astype(relax_function(name)(data, axis, given.keepdims), "int32")

    return build


def _variance(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    data, mean = operands
    shape = extents(data)
    dtype = dtype_of(data)
    if dtype_of(mean) != dtype:
        raise ModelError(f"the data is {dtype} and the mean {dtype_of(mean)}, not the same")
    axes = _reduced(given, len(shape))
    if axes == () or not shape:
        raise ModelError("leaves no axis to reduce")
    deviation = scope.emit(relax.op.subtract(data, mean))
    squares = relax.op.multiply(deviation, deviation)
    if dtype == "float16":
        squares = relax.op.astype(squares, "float32")
    squares = scope.emit(squares)
    if not given.unbiased:
        result = relax.op.mean(squares, axes, given.keepdims)
    else:
        count = 1
        for axis in range(len(shape)) if axes is None else axes:
            count *= shape[axis]
        total = relax.op.sum(squares, axes, given.keepdims)
        if isinstance(count, int):
            divisor = scalar_like(count - 1, squares)
        else:
            divisor = relax.op.astype(scalar(scope.emit, count - 1), dtype_of(squares))
        result = relax.op.divide(total, divisor)
    return relax.op.astype(result, dtype) if dtype == "float16" else result


def _prepare_variance(**arguments: Any) -> tuple[Sequence[Any], Mapping[str, Any]]:
    mean = arguments.pop("with_mean")
    (data,), attributes = one_axis_to_list(**arguments)
    if mean is None:
        kept = {name: attributes[name] for name in ("axis", "exclude") if attributes[name] is not None}
        mean = Call("mean", (data,), {**kept, "keepdims": True})
    return [data, mean], attributes


def _export(call: relax.Call) -> Mapping[str, Any]:
    return {"axis": plain(call.attrs.axis), "keepdims": bool(call.attrs.keepdims), "exclude": False}


def _row(
    name: str,
    build: Callable[..., Expression],
    *,
    relax_names: tuple[str, ...] = (),
    export: Export | None = None,
) -> Operator:
    return Operator(
        name,
        ("data",),
        build,
        "ReduceAttrs",
        prepare=one_axis_to_list,
        relax_names=relax_names,
        export=export,
    )


ROWS = (
    *(_same(name) for name in _IDENTICAL),
    _row("mean", _mean, relax_names=("mean",), export=_export),
    _row("all", _logical(relax.op.min)),
    _row("any", _logical(relax.op.max)),
    *(
        Operator(
            name,
            ("data",),
            _arg(name),
            "ArgReduceAttrs",
            signature="data, axis=None, keepdims=False, exclude=False, select_last_index=False",
            prepare=one_axis_to_list,
            carried=True,
        )
        for name in ("argmax", "argmin")
    ),
    Operator(
        "variance",
        ("data", "mean"),
        _variance,
        "VarianceAttrs",
        signature="data, axis=None, keepdims=False, exclude=False, unbiased=False, with_mean=None",
        prepare=_prepare_variance,
    ),
)
