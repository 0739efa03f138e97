"""Operators of planned memory, as passes that change it meet them."""

from tvm import relax

from relay_layout.ir import Expression, as_extent, is_static

STORAGE = "memory.alloc_storage"
TENSOR = "memory.alloc_tensor"
RESHAPE = "reshape"
POINTED = "memory.ensure_zero_offset"


def is_known(shape: Expression) -> bool:
    """Is a shape written out, in numbers?"""
    return isinstance(shape, relax.ShapeExpr) and is_static([as_extent(extent) for extent in shape.values])


__all__ = ["POINTED", "RESHAPE", "STORAGE", "TENSOR", "is_known"]
