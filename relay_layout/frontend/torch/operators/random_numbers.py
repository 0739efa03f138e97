"""PyTorch's random numbers between zero and one: the same in each call, as a node's name decides.

A compiled network is a function of its inputs, and noise that is to differ has to be one of them.
"""

from typing import Any
from zlib import crc32

from tvm import relax, te

from relay_layout.frontend.torch.node import Converter, result_dtype, value_of
from relay_layout.ir import Expression
from topi_ext.compute.random_numbers import uniform

_OPAQUE = 8
"""TVM's number for operators that are fused with none: each reader of a number would draw it again, and
simplifying a softmax of such numbers takes minutes."""


def _rand(node: Any, importer: Any) -> Expression:
    seed = crc32(node.name.encode())

    def compute(*extents: Any) -> te.Tensor:
        return uniform(extents, seed)

    builder = importer.block_builder
    extents = [value_of(importer, extent) for extent in node.args[0]]
    call = builder.call_te(
        compute, *extents, primfunc_name_hint="uniform", primfunc_attrs={"op_pattern": _OPAQUE}
    )
    drawn = builder.emit(call)
    dtype = result_dtype(node)
    return drawn if dtype == "float32" else builder.emit(relax.op.astype(drawn, dtype))


CONVERTERS: dict[str, Converter] = {"rand.default": _rand}
"""By operation."""
