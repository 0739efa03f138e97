"""Transforms between layouts as loops over the result: kernels of copies then write whole vectors."""

import tvm
from tvm import relax, te, tirx

from relay_layout.ir import Expression, shape_of
from relay_layout.lower.fusion.patterns import OPAQUE, PATTERN
from relay_layout.lower.legalize.default import default_call
from topi_ext.ir import uses


def layout_transform_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """Each element of the result, read where the inverse of the transform says.

    TVM's loops, over the data, where neighbours in it stay neighbours, and where a result has elements that
    no data has.
    """
    moved = call.attrs.index_map
    if _keeps_neighbours(moved):
        return default_call(builder, call)
    extents = shape_of(call.args[0]) or ()
    inverse, missing = moved.non_surjective_inverse([tvm.ir.Range(0, extent) for extent in extents])
    if not tvm.sym.Analyzer().can_prove(tirx.Not(missing)):
        return default_call(builder, call)

    def transformed(data: te.Tensor) -> te.Tensor:
        return te.compute(
            list(call.ty.shape.values),
            lambda *index: data(*inverse.map_indices(list(index))),
            name="te_layout_transform",
        )

    return builder.call_te(
        transformed,
        call.args[0],
        primfunc_name_hint="te_layout_transform",
        primfunc_attrs={PATTERN: OPAQUE},
    )


def _keeps_neighbours(moved: tirx.IndexMap) -> bool:
    """Whether all that the last axis of the data does is to move an element along the last of the result."""
    last = moved.initial_indices[-1]
    *outer, inner = moved.final_indices
    step = tvm.sym.Analyzer().simplify(inner - last)
    return not any(uses(index, last) for index in (*outer, step))
