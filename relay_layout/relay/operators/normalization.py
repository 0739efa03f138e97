"""Normalization: of batches, layers, instances, groups, neighbourhoods and lengths."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm import relax, topi

from relay_layout.errors import ModelError
from relay_layout.ir import Expression, is_static
from relay_layout.relay.operators.attributes import Attributes
from relay_layout.relay.operators.axis_arguments import axis_of, integers
from relay_layout.relay.operators.direct import named_attributes
from relay_layout.relay.operators.operator import Operator, Scope, extents, rank_of, scalar_like
from relay_layout.relay.operators.windows import count
from relay_layout.relay.syntax.relay_types import RelayType, TensorType

_VECTORS = "axis={axis}, epsilon=1e-5, center=True, scale=True"


def vector_types(*positions: int) -> Callable[..., Mapping[int, RelayType]]:
    """Vectors as long as the data's axis ``axis``, at the given positions."""

    def types(known: Sequence[RelayType | None], attributes: Attributes) -> Mapping[int, RelayType]:
        data = known[0]
        if not isinstance(data, TensorType):
            return {}
        extent = data.shape[axis_of(attributes.axis, len(data.shape))]
        return dict.fromkeys(positions, TensorType((extent,), data.dtype))

    return types


def check_vectors(data: Expression, vectors: Sequence[Expression], axis: int, names: str) -> None:
    """ModelError for a vector that is not as long as the data's axis: it would be broadcast, or read past
    its end."""
    wanted = extents(data)[axis]
    for name, vector in zip(names.split(), vectors, strict=True):
        shape = extents(vector)
        fits = len(shape) == 1 and (not is_static((shape[0], wanted)) or shape[0] == wanted)
        if not fits:
            shown = ", ".join(str(extent) for extent in shape)
            raise ModelError(f"{name} has the shape ({shown}), not ({wanted}), the extent of axis {axis}")


def _batch_norm(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    axis = axis_of(attributes.axis, rank_of(operands[0]))
    check_vectors(operands[0], operands[1:], axis, "gamma beta moving_mean moving_var")
    return relax.op.nn.batch_norm(
        *operands,
        axis=axis,
        epsilon=attributes.epsilon,
        center=attributes.center,
        scale=attributes.scale,
        training=False,
    )


def _export_batch_norm(call: relax.Call) -> Mapping[str, Any] | None:
    if bool(call.attrs.training):
        return None
    return named_attributes(call, "axis", "epsilon", "center", "scale")


def _affine(
    normalize: Callable[[Sequence[Expression], int, int, Attributes], Expression],
) -> Callable[[Scope, Sequence[Expression], Attributes], Expression]:
    """Build for a normalization with gamma and beta, of which ``scale`` and ``center`` may want none."""

    def build(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
        data, gamma, beta = operands
        rank = rank_of(data)
        axis = axis_of(attributes.axis, rank)
        check_vectors(data, (gamma, beta), axis, "gamma beta")
        # Lowering multiplies by gamma and adds beta whatever the flags of the Relax operator say.
        gamma = gamma if attributes.scale else relax.op.ones_like(gamma)
        beta = beta if attributes.center else relax.op.zeros_like(beta)
        return normalize((data, gamma, beta), axis, rank, attributes)

    return build


def _layer_norm(operands: Sequence[Expression], axis: int, rank: int, attributes: Attributes) -> Expression:
    return relax.op.nn.layer_norm(*operands, axes=[axis], epsilon=attributes.epsilon)


def _instance_norm(
    operands: Sequence[Expression], axis: int, rank: int, attributes: Attributes
) -> Expression:
    axes = [other for other in range(1, rank) if other != axis]
    return relax.op.nn.instance_norm(*operands, channel_axis=axis, axes=axes, epsilon=attributes.epsilon)


def _group_norm(operands: Sequence[Expression], axis: int, rank: int, attributes: Attributes) -> Expression:
    """Relay takes the statistics over the channels of a group and over the axes behind that of channels."""
    groups = count("num_groups", attributes.num_groups)
    channels = extents(operands[0])[axis]
    if isinstance(channels, int) and channels % groups:
        raise ModelError(f"num_groups is {groups}, which does not divide {channels} channels")
    return relax.op.nn.group_norm(
        *operands,
        num_groups=groups,
        channel_axis=axis,
        axes=list(range(axis + 1, rank)),
        epsilon=attributes.epsilon,
    )


def _has_axes(
    wanted: Callable[[int, int], list[int]], channels: str
) -> Callable[[relax.Call], Mapping[str, Any] | None]:
    """Export for a normalization over exactly the axes that Relay takes, given axis and rank."""

    def export(call: relax.Call) -> Mapping[str, Any] | None:
        rank = rank_of(call.args[0])
        axes = sorted(int(axis) % rank for axis in call.attrs.axes)
        if channels:
            axis = int(getattr(call.attrs, channels)) % rank
        elif len(axes) == 1:
            axis = axes[0]
        else:
            return None
        if axes != wanted(axis, rank) or rank_of(call.args[1]) != 1:
            return None
        names = ["epsilon", "center", "scale", *(["num_groups"] if hasattr(call.attrs, "num_groups") else [])]
        return named_attributes(call, *names) | {"axis": axis}

    return export


def _l2_normalize(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    """x / sqrt(max(sum(x * x), eps)), the sum over ``axis``, or over all axes if there are none."""
    data = operands[0]
    rank = rank_of(data)
    given = () if attributes.axis is None else integers(attributes.axis, "axis")
    axes = sorted({axis_of(axis, rank) for axis in given}) or None
    total = relax.op.sum(relax.op.multiply(data, data), axes, keepdims=True)
    length = relax.op.sqrt(relax.op.maximum(total, scalar_like(attributes.eps, data)))
    return relax.op.divide(data, length)


def _lrn(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    data = operands[0]
    size = count("size", attributes.size)
    if size % 2 == 0:
        raise ModelError(f"size is {size}; it must be odd")
    rank = rank_of(data)
    axis = axis_of(attributes.axis, rank)
    if rank != 4 or axis not in (1, 3):
        raise ModelError(f"axis is {axis} of {rank} dimensions; lrn takes axis 1 or 3 of 4")
    return scope.builder.call_te(
        lambda image: topi.nn.lrn(image, size, axis, attributes.alpha, attributes.beta, attributes.bias),
        data,
        primfunc_name_hint="lrn",
    )


ROWS = (
    Operator(
        "nn.batch_norm",
        ("data", "gamma", "beta", "moving_mean", "moving_var"),
        _batch_norm,
        "BatchNormAttrs",
        signature=f"data, gamma, beta, moving_mean, moving_var, {_VECTORS.format(axis=1)}",
        results=3,
        relax_names=("nn.batch_norm",),
        export=_export_batch_norm,
        operand_types=vector_types(1, 2, 3, 4),
    ),
    Operator(
        "nn.layer_norm",
        ("data", "gamma", "beta"),
        _affine(_layer_norm),
        "LayerNormAttrs",
        signature=f"data, gamma, beta, {_VECTORS.format(axis=-1)}",
        relax_names=("nn.layer_norm",),
        export=_has_axes(lambda axis, rank: [axis], ""),
        operand_types=vector_types(1, 2),
    ),
    Operator(
        "nn.instance_norm",
        ("data", "gamma", "beta"),
        _affine(_instance_norm),
        "InstanceNormAttrs",
        signature=f"data, gamma, beta, {_VECTORS.format(axis=1)}",
        relax_names=("nn.instance_norm",),
        export=_has_axes(
            lambda axis, rank: [other for other in range(1, rank) if other != axis], "channel_axis"
        ),
        operand_types=vector_types(1, 2),
    ),
    Operator(
        "nn.group_norm",
        ("data", "gamma", "beta"),
        _affine(_group_norm),
        "GroupNormAttrs",
        signature=f"data, gamma, beta, num_groups, {_VECTORS.format(axis=1)}",
        relax_names=("nn.group_norm",),
        export=_has_axes(lambda axis, rank: list(range(axis + 1, rank)), "channel_axis"),
        operand_types=vector_types(1, 2),
    ),
    Operator(
        "nn.l2_normalize", ("data",), _l2_normalize, "L2NormalizeAttrs", signature="data, eps, axis=None"
    ),
    Operator(
        "nn.lrn",
        ("data",),
        _lrn,
        "LRNAttrs",
        signature="data, size=5, axis=1, bias=2, alpha=1e-05, beta=0.75",
        carried=True,
    ),
)
