"""Transforms between layouts as loops over the result: kernels of copies then write whole vectors."""

import tvm
from tvm import relax, te, tirx

from relay_layout.ir import Expression, shape_of
from relay_layout.lower.fusion.patterns import OPAQUE, PATTERN
from relay_layout.lower.legalize.default import default_call


def layout_transform_call(builder: relax.BlockBuilder, call: relax.Call) -> Expression:
    """Each element of the result, read where the inverse of the transform says.

    TVM's loops, over the data, where a result has elements that no data has.
    """
    extents = shape_of(call.args[0]) or ()
    inverse, missing = call.attrs.index_map.non_surjective_inverse(
        [tvm.ir.Range(0, extent) for extent in extents]
    )
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
