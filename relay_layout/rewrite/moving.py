"""One transform of a tensor from a layout to another, as Relax calls."""

from collections.abc import Sequence

from tvm import relax, tirx

from relay_layout.ir import Expression, Extent, as_layout_change, shape_of
from relay_layout.layout import Layout
from relay_layout.layout.transform import index_map


def move(
    builder: relax.BlockBuilder,
    expression: Expression,
    source: Layout,
    target: Layout,
    extents: Sequence[Extent],
    name: str,
) -> Expression:
    """``expression``, which lies in ``source``, in ``target``; both are over the same generic letters.

    ``extents`` are the logical ones, in the order of the letters. What a layout pads for alignment is cut off
    before and added after the transform, as zeros. ``name`` is what new bindings are called after.
    """
    if source.alignments != target.alignments:
        expression = _cut(builder, expression, source, extents, name)
        expression = move(builder, expression, source.unaligned, target.unaligned, extents, name)
        return _padded(builder, expression, target, f"{name}_transformed")
    dtype = str(expression.ty.dtype)
    return emit_transform(builder, expression, source, target, dtype, f"{name}_transformed")


def emit_transform(
    builder: relax.BlockBuilder,
    expression: Expression,
    source: Layout,
    target: Layout,
    dtype: str,
    hint: str = "transformed",
) -> Expression:
    """One transform between layouts of equal alignments: a transposition where that is all it takes."""
    if source == target:
        return expression
    moves = index_map(source, target)
    if moves.is_permutation:
        if isinstance(expression, relax.TupleGetItem):
            # Of a call that TVM has to put into normal form it forgets the place, which is the mark.
            expression = builder.emit(expression)
        turned = relax.op.permute_dims(expression, list(moves.permutation))
        return builder.emit(as_layout_change(turned), name_hint=hint)
    if dtype == "bool":
        # TVM lowers no layout_transform of bool.
        expression = builder.emit(relax.op.astype(expression, "int8"))
    function = tirx.IndexMap.from_func(
        lambda *index: [relax.prim_value(entry) for entry in moves.map_index(index)],
        ndim=source.rank,
    )
    moved = builder.emit(relax.op.layout_transform(expression, function), name_hint=hint)
    return builder.emit(relax.op.astype(moved, "bool")) if dtype == "bool" else moved


def _cut(
    builder: relax.BlockBuilder,
    expression: Expression,
    layout: Layout,
    extents: Sequence[Extent],
    name: str,
) -> Expression:
    """Without what alignments add to the extents."""
    if not layout.alignments:
        return expression
    held = shape_of(expression) or ()
    wanted = layout.unaligned.shape(extents, Layout.generic(len(layout.primal)))
    axes = [axis for axis in range(layout.rank) if isinstance(held[axis], int) and held[axis] != wanted[axis]]
    if not axes:
        return expression
    ends = [wanted[axis] for axis in axes]
    return builder.emit(
        relax.op.strided_slice(expression, axes, [0] * len(axes), ends), name_hint=f"{name}_cut"
    )


def _padded(builder: relax.BlockBuilder, expression: Expression, layout: Layout, hint: str) -> Expression:
    """With zeros up to alignments."""
    shape = shape_of(expression) or ()
    widths: list[int] = []
    for axis, extent in zip(layout.axes, shape, strict=True):
        unit = layout.alignment(axis.name)
        widths += [0, -extent % unit if unit > 1 else 0]
    if not any(widths):
        return expression
    return builder.emit(relax.op.nn.pad(expression, widths), name_hint=hint)
