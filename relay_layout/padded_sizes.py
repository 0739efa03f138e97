"""The type of a padded tensor in the form that kernels have it in.

TVM infers of ``nn.pad`` extents such as ``height // 2 + 1 + 2``, and its loops give ``height // 2 + 3``.
Where a reader of a tensor is lowered before the padding is, functions of the two could not be fused.
"""

from typing import Any

from tvm import relax
from tvm.ir import Op, register_op_attr

from topi_ext.extents import simplified

_PAD = "relax.nn.pad"
_ABOVE_TVM = 11
"""The level of an attribute that takes the place of TVM's own."""


def infer_padded_sizes() -> None:
    """Have Relax infer the simplest extents of what ``nn.pad`` gives; once for a process."""
    infer = Op.get(_PAD).get_attr("FInferType")

    def inferred(call: relax.Call, builder: relax.BlockBuilder) -> Any:
        found = infer(call, builder)
        if not isinstance(found.shape, relax.ShapeExpr):
            return found
        return relax.TensorType([simplified(extent) for extent in found.shape], found.dtype, found.vdevice)

    register_op_attr(_PAD, "FInferType", inferred, _ABOVE_TVM)


__all__ = ["infer_padded_sizes"]
