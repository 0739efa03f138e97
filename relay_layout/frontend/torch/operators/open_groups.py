"""Convolutions in an open number of groups: of images of a batch, each by weights of its own.

Programs write them as one image with the channels of all (modulated convolutions, correlations with a
template, mixtures of experts). Each group is a product of its weights by the patches of its channels.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

from tvm import relax

from relay_layout.errors import ModelError
from relay_layout.frontend.extents.arithmetic import same, simplify
from relay_layout.frontend.operators.padding import padded
from relay_layout.frontend.operators.sliding_windows import Window
from relay_layout.ir import Emit, Expression, Extent, is_static, shape_of


def convolution_by_groups(
    node: Any,
    emit: Emit,
    data: Expression,
    weight: Expression,
    groups: Extent,
    window: tuple[Sequence[int], Sequence[int], Sequence[int]],
) -> Expression:
    """Data [N, G I, H, W] by a weight [G O, I, KH, KW], as [N, G O, OH, OW]; G is open, and so may be others.

    ``window`` has strides, padding of both sides alike, and dilation. ModelError where I, O or the kernel
    are open.
    """
    batch, _, *image = shape_of(data) or ()
    outputs, inputs, *kernel = shape_of(weight) or ()
    own = _quotient(node)
    is_known = is_static((inputs, *kernel))
    if own is None or not is_known or not same(outputs, groups * own):
        raise ModelError(
            f"node '{node.name}': a convolution in an open number of groups, of open channels or by an open "
            "kernel, is not supported; give the input a fixed batch"
        )
    strides, padding, dilation = window
    sides = tuple(padding)
    sliding = Window(tuple(kernel), tuple(strides), tuple(dilation), sides, sides)
    data = padded(emit, data, [(width, width) for width in padding], 0.0)
    extents = [
        simplify((extent + 2 * pad - step * (taps - 1) - 1) // stride + 1)
        for extent, pad, step, taps, stride in zip(image, padding, dilation, kernel, strides, strict=True)
    ]
    _, parts = sliding.elements(emit, data, extents)
    pixels = prod(extents[1:], start=extents[0])
    patches = emit(relax.op.stack(parts, axis=2))
    summed = inputs * prod(kernel)
    found = emit(
        relax.op.matmul(
            emit(relax.op.reshape(weight, relax.ShapeExpr([1, groups, own, summed]))),
            emit(relax.op.reshape(patches, relax.ShapeExpr([batch, groups, summed, pixels]))),
        )
    )
    return emit(relax.op.reshape(found, relax.ShapeExpr([batch, outputs, *extents])))


def _quotient(node: Any) -> int | None:
    """The outputs of one group, by the example that the program was written for."""
    outputs, count = node.args[1].meta["val"].shape[0], node.args[8].meta["val"]
    whole, number = (int(one.node.hint) if hasattr(one, "node") else int(one) for one in (outputs, count))
    return whole // number if number and whole % number == 0 else None
