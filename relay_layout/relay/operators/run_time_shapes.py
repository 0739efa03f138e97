"""Operators whose shapes are operands: known when the network runs, or where extents tell them."""

from collections.abc import Mapping, Sequence
from typing import Any

from tvm import relax

from relay_layout.errors import ModelError
from relay_layout.ir import (
    Constant,
    Expression,
    Extent,
    constant_array,
    dtype_of,
    is_one,
    is_static,
)
from relay_layout.relay.operators import run_time_slices
from relay_layout.relay.operators.attributes import Attributes
from relay_layout.relay.operators.axis_arguments import axis_of
from relay_layout.relay.operators.counted import (
    WIDE,
    as_tensor,
    counted,
    counting,
    extents_of,
    length_of,
    plain,
)
from relay_layout.relay.operators.elementwise import checked_dtype
from relay_layout.relay.operators.known_entries import known_entries, whose_shape
from relay_layout.relay.operators.operator import Operator, Scope, extents, rank_of, scalar
from relay_layout.relay.operators.rearranging import SYMBOLIC_BROADCAST
from relay_layout.relay.operators.reshape_codes import divided, new_shape, prod_of
from relay_layout.relay.operators.resizing import (
    RESIZE2D_SIGNATURE,
    UPSAMPLING3D_SIGNATURE,
    UPSAMPLING_SIGNATURE,
    checked_layout,
    resized,
    upsampled,
)
from relay_layout.relay.operators.sorting import topk_results
from relay_layout.relay.operators.windows import SPATIAL


def _of_one_value(scope: Scope, shape: Expression, value: Expression, dtype: str) -> Expression:
    like = whose_shape(scope.builder, shape)
    if like is not None and dtype_of(like) == dtype_of(value) == dtype:
        return relax.op.full_like(like, value)
    return relax.op.full(extents_of(scope, shape, "shape"), value, dtype)


def _filled(name: str, fill: float) -> Operator:
    def build(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
        dtype = checked_dtype(given.dtype or "float32")
        return _of_one_value(scope, operands[0], scalar(fill, dtype), dtype)

    return Operator(
        name, ("shape",), build, "InitOpAttrs", signature="shape, dtype='float32'", prepare=_with_shape
    )


def _with_shape(**arguments: Any) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Relay has the operand among the attributes of an operator of fixed shape alone."""
    operands = [arguments.pop(name) for name in ("fill_value", "data", "shape") if name in arguments]
    return operands, {**arguments, "shape": None}


def _full(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    value, shape = operands
    dtype = checked_dtype(given.dtype or dtype_of(value))
    if rank_of(value) != 0:
        raise ModelError(f"the value has {rank_of(value)} dimensions; it is a scalar")
    return _of_one_value(scope, shape, value, dtype)


def _broadcast_to(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    data, shape = operands
    like = whose_shape(scope.builder, shape)
    if like is not None:
        return SYMBOLIC_BROADCAST([data, like], {})
    before = length_of(shape, "shape") - rank_of(data)
    if before < 0:
        raise ModelError(f"shape has fewer entries than the data's {rank_of(data)} dimensions")
    known = {before + axis: extent for axis, extent in enumerate(extents(data)) if not is_one(extent)}
    return relax.op.broadcast_to(data, extents_of(scope, shape, "shape", known))


def _reshape(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    data, codes = operands
    count, shape = length_of(codes, "newshape"), extents(data)
    entries = known_entries(scope.builder, codes)
    if entries is not None and any(entry is None for entry in entries):
        entries = None
    if entries is not None and is_static(tuple(entries)):
        return relax.op.reshape(data, new_shape(shape, list(entries), keep_zeros=bool(given.allowzero)))
    if entries is not None:
        return relax.op.reshape(data, _settled(shape, list(entries), bool(given.allowzero)))
    wanted = scope.emit(relax.op.astype(codes, WIDE))
    if not given.allowzero:
        copied = as_tensor(scope, [*shape, *[0] * count][:count])
        wanted = scope.emit(relax.op.where(_equal(wanted, 0), copied, wanted))
    total = as_tensor(scope, [prod_of(shape)])
    known = scope.emit(relax.op.prod(relax.op.where(_equal(wanted, -1), scalar(1, WIDE), wanted), [0], True))
    rest = scope.emit(relax.op.floor_divide(total, relax.op.maximum(known, scalar(1, WIDE))))
    wanted = scope.emit(relax.op.where(_equal(wanted, -1), rest, wanted))
    # A view of fewer elements than there are would be taken as it is.
    size = scope.emit(relax.op.prod(wanted, [0], True))
    checked = scope.emit(relax.op.concat([wanted, size], 0))
    found = counted(scope, checked, "newshape", {count: prod_of(shape)})
    return relax.op.reshape(data, found[:count])


def _settled(shape: Sequence[Extent], codes: Sequence[Any], keep_zeros: bool) -> list[Extent]:
    """Extents, of which some are expressions, with what 0 and one -1 among them stand for."""
    result = list(codes)
    for place, code in enumerate(codes):
        if isinstance(code, int) and code == 0 and not keep_zeros:
            if place >= len(shape):
                raise ModelError(f"newshape takes extent {place} of a tensor of {len(shape)} dimensions")
            result[place] = shape[place]
    rest = [place for place, code in enumerate(result) if isinstance(code, int) and code < 0]
    if len(rest) > 1 or any(result[place] != -1 for place in rest):
        raise ModelError("newshape has several negative entries beside extents that are not known")
    if rest:
        others = prod_of(code for place, code in enumerate(result) if place not in rest)
        result[rest[0]] = divided(prod_of(shape), others)
    return result


def _equal(tensor: Expression, number: int) -> Expression:
    return relax.op.equal(tensor, scalar(number, WIDE))


def _tile(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    """Each dimension behind one of how often it is repeated, and both as one."""
    data, reps = operands
    counts, shape = extents_of(scope, reps, "reps"), list(extents(data))
    rank = max(len(counts), len(shape))
    counts = [1] * (rank - len(counts)) + counts
    shape = [1] * (rank - len(shape)) + shape
    apart = scope.emit(relax.op.reshape(data, [part for extent in shape for part in (1, extent)]))
    paired = [part for pair in zip(counts, shape, strict=True) for part in pair]
    repeated = scope.emit(relax.op.broadcast_to(apart, paired))
    products = [
        extent if isinstance(count, int) and count == 1 else count * extent
        for count, extent in zip(counts, shape, strict=True)
    ]
    return relax.op.reshape(repeated, [plain(scope, extent, "tiled") for extent in products])


def _topk(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    data, k = operands
    axis = axis_of(given.axis, rank_of(data))
    extent = extents(data)[axis]
    if given.ret_type not in ("both", "values", "indices"):
        raise ModelError(f"ret_type is 'both', 'values' or 'indices', not '{given.ret_type[:20]}'")
    dtype = checked_dtype(given.dtype or "int32")
    ordered = scope.emit(relax.op.topk(data, -1, axis, "both", not given.is_ascend, dtype))
    wanted = scope.emit(relax.op.reshape(relax.op.astype(k, WIDE), [1]))
    whole = as_tensor(scope, [extent])
    wanted = scope.emit(relax.op.where(relax.op.less(wanted, scalar(1, WIDE)), whole, wanted))
    (count,) = counted(scope, scope.emit(relax.op.minimum(wanted, whole)), "k")
    results = [
        scope.emit(
            relax.op.strided_slice(
                relax.TupleGetItem(ordered, place), [axis], [0], [count], assume_inbound=True
            )
        )
        for place in range(2)
    ]
    return {"both": relax.Tuple(results), "values": results[0], "indices": results[1]}[given.ret_type]


def _one_hot(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    indices, on, off, depth = operands
    rank = rank_of(indices) + 1
    axis = axis_of(given.axis, rank)
    (count,) = extents_of(scope, scope.emit(relax.op.reshape(depth, [1])), "depth")
    shape = [count if place == axis else 1 for place in range(rank)]
    places = scope.emit(relax.op.reshape(scope.emit(counting(count)), shape))
    chosen = relax.op.expand_dims(relax.op.astype(indices, WIDE), [axis])
    dtype = checked_dtype(given.dtype or dtype_of(on))
    values = [relax.op.astype(value, dtype) for value in (on, off)]
    return relax.op.where(relax.op.equal(chosen, places), *values)


def _resize2d(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
    data, size, roi = operands
    if not isinstance(roi, Constant):
        raise ModelError("roi is computed when the network runs; only the size can be")
    numbers = tuple(float(number) for number in constant_array(roi).reshape(-1))
    return resized(scope, data, 2, extents_of(scope, size, "size"), {**given, "roi": numbers})


def _prepare_reshape(data: Any, newshape: Any, allowzero: Any = False) -> tuple[list[Any], dict[str, Any]]:
    return [data, newshape], {"newshape": None, "allowzero": allowzero}


def _prepare_tile(data: Any, reps: Any) -> tuple[list[Any], dict[str, Any]]:
    return [data, reps], {"reps": None}


def _prepare_topk(**arguments: Any) -> tuple[list[Any], dict[str, Any]]:
    return [arguments.pop("data"), arguments.pop("k")], {**arguments, "k": None}


def _prepare_one_hot(**arguments: Any) -> tuple[list[Any], dict[str, Any]]:
    operands = [arguments.pop(name) for name in ("indices", "on_value", "off_value", "depth")]
    return operands, arguments


def _prepare_resize(**arguments: Any) -> tuple[list[Any], dict[str, Any]]:
    roi = arguments.pop("roi")
    operands = [arguments.pop("data"), arguments.pop("size"), (0.0,) * 4 if roi is None else roi]
    return operands, {**arguments, "size": None, "roi": None}


def _upsampling(dimensions: int, signature: str) -> Operator:
    """A resizing to rounded multiples of the extents, by factors that are operands."""
    names = [f"scale_{axis.lower()}" for axis in SPATIAL[dimensions]]

    def build(scope: Scope, operands: Sequence[Expression], given: Attributes) -> Expression:
        data, *factors = operands
        layout = checked_layout(given.layout, dimensions, data)
        shape = extents(data)
        images = as_tensor(scope, [shape[layout.index(axis)] for axis in SPATIAL[dimensions]])
        flat = [scope.emit(relax.op.reshape(relax.op.astype(factor, "float32"), [1])) for factor in factors]
        # As Relay rounds, which multiplies in float32.
        scaled = relax.op.multiply(relax.op.astype(images, "float32"), relax.op.concat(flat, 0))
        size = scope.emit(relax.op.astype(relax.op.round(scaled), WIDE))
        return upsampled(scope, data, dimensions, counted(scope, size, "size"), given)

    def prepare(**arguments: Any) -> tuple[list[Any], dict[str, Any]]:
        operands = [arguments.pop(name) for name in ("data", *names)]
        return operands, {**arguments, **dict.fromkeys(names, 0.0)}

    name = "nn.upsampling" if dimensions == 2 else "nn.upsampling3d"
    attributes = "UpSamplingAttrs" if dimensions == 2 else "UpSampling3DAttrs"
    return Operator(f"dyn.{name}", ("data", *names), build, attributes, signature=signature, prepare=prepare)


ROWS = (
    _filled("dyn.zeros", 0),
    _filled("dyn.ones", 1),
    Operator(
        "dyn.full",
        ("fill_value", "shape"),
        _full,
        "InitOpAttrs",
        signature="fill_value, shape, dtype=''",
        prepare=_with_shape,
    ),
    Operator(
        "dyn.broadcast_to",
        ("data", "shape"),
        _broadcast_to,
        "InitOpAttrs",
        signature="data, shape",
        prepare=_with_shape,
    ),
    Operator(
        "dyn.reshape",
        ("data", "newshape"),
        _reshape,
        "ReshapeAttrs",
        signature="data, newshape, allowzero=False",
        prepare=_prepare_reshape,
    ),
    Operator("dyn.tile", ("data", "reps"), _tile, "TileAttrs", signature="data, reps", prepare=_prepare_tile),
    Operator(
        "dyn.topk",
        ("data", "k"),
        _topk,
        "TopkAttrs",
        signature="data, k, axis=-1, ret_type='both', is_ascend=False, dtype='int32'",
        prepare=_prepare_topk,
        results=topk_results,
    ),
    Operator(
        "dyn.one_hot",
        ("indices", "on_value", "off_value", "depth"),
        _one_hot,
        "OneHotAttrs",
        signature="indices, on_value, off_value, depth, axis, dtype",
        prepare=_prepare_one_hot,
    ),
    Operator(
        "dyn.image.resize2d",
        ("data", "size", "roi"),
        _resize2d,
        "Resize2DAttrs",
        signature=RESIZE2D_SIGNATURE,
        prepare=_prepare_resize,
    ),
    _upsampling(2, UPSAMPLING_SIGNATURE),
    _upsampling(3, UPSAMPLING3D_SIGNATURE),
    *run_time_slices.ROWS,
)
"""Rows by the names that Relay gave operators once a shape was an operand."""
