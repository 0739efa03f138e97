"""What is computed of each matrix of a tensor [..., R, C]."""

from collections.abc import Callable
from math import prod
from typing import Any

from tvm import relax

from relay_layout.ir import Expression, shape_of


def of_matrices(
    builder: Any, compute: Callable[..., Any], data: Expression, *others: Expression
) -> list[Expression]:
    """The results of ``compute``, which takes matrices [M, R, C], for all those of ``data``.

    ``others`` are of as many matrices, [..., and what ``compute`` takes of them after M].
    """
    batch = list(shape_of(data) or ())[:-2]

    def reshaped(value: Expression, leading: list[Any], after: int) -> Expression:
        own = list(shape_of(value) or ())[after:]
        return builder.emit(relax.op.reshape(value, relax.ShapeExpr([*leading, *own])))

    flat = [reshaped(one, [prod(batch)], len(batch)) for one in (data, *others)]
    found = builder.emit(builder.call_te(compute, *flat, primfunc_name_hint=compute.__name__))
    parts = getattr(found.ty, "fields", None)
    results = [found] if parts is None else [relax.TupleGetItem(found, at) for at in range(len(parts))]
    return [reshaped(builder.emit(result), batch, 1) for result in results]
