"""PyTorch's running extremes and running sums of exponentials."""

from collections.abc import Callable
from typing import Any

from tvm import relax, te, tirx

from relay_layout.frontend.torch.node import Converter
from relay_layout.ir import Expression, dtype_of, shape_of
from topi_ext.compute.scans import scanned


def _axis(node: Any, importer: Any) -> int:
    return int(node.args[1]) % max(1, len(shape_of(importer.env[node.args[0]]) or ()))


def _scanned(importer: Any, value: Expression, axis: int, combine: Callable[[Any, Any], Any]) -> Expression:
    """What ``combine`` makes of all elements along ``axis`` up to each one."""

    def compute(data: te.Tensor) -> te.Tensor:
        return scanned(data, axis, combine)

    return importer.block_builder.emit_te(compute, value, primfunc_name_hint="scan")


def _running(combine: Callable[[Any, Any], Any]) -> Converter:
    """The extreme up to each element of a dimension, and the last place that it was found at."""

    def convert(node: Any, importer: Any) -> Expression:
        value, emit = importer.env[node.args[0]], importer.block_builder.emit
        extents, axis = shape_of(value) or (), _axis(node, importer)
        if not extents:
            return emit(relax.Tuple([value, relax.const(0, "int64")]))
        found = _scanned(importer, value, axis, combine)
        places = emit(relax.op.arange(0, extents[axis], 1, "int64"))
        spread = relax.ShapeExpr([extents[axis] if place == axis else 1 for place in range(len(extents))])
        places = emit(relax.op.reshape(places, spread))
        is_here = emit(relax.op.equal(value, found))
        places = emit(relax.op.where(is_here, places, relax.const(0, "int64")))
        return emit(relax.Tuple([found, _scanned(importer, places, axis, tirx.max)]))

    return convert


def _log_of_running_sum(node: Any, importer: Any) -> Expression:
    """``log(cumsum(exp(data)))``, of exponentials that may be beyond what a float holds."""

    value = importer.env[node.args[0]]
    one, zero = (tirx.const(number, dtype_of(value)) for number in (1, 0))

    def combine(left: Any, right: Any) -> Any:
        higher, lower = tirx.max(left, right), tirx.min(left, right)
        # Of equals the difference is not needed, and between infinities it is no number.
        less = tirx.Select(higher == lower, zero, lower - higher)
        return higher + tirx.log(one + tirx.exp(less))

    if not shape_of(value):
        return value
    return _scanned(importer, value, _axis(node, importer), combine)


CONVERTERS: dict[str, Converter] = {
    "cummax.default": _running(tirx.max),
    "cummin.default": _running(tirx.min),
    "logcumsumexp.default": _log_of_running_sum,
}
"""By the names that TVM's importer has for operations."""
