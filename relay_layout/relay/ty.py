"""Relay's types: classes whose calls make those of the tree, and unknown extents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any as Anything

import numpy as np
import tvm

from relay_layout.relay.kind import Kind
from relay_layout.relay.syntax import relay_types


class TensorType(metaclass=Kind):
    """The type of a tensor; ``relay.Any()`` and symbolic extents are unknown ones."""

    node = relay_types.TensorType

    def __new__(cls, shape: Sequence[Anything] = (), dtype: Anything = "float32") -> Anything:
        return relay_types.TensorType(tuple(map(_extent, shape)), dtype_text(dtype))


class TupleType(metaclass=Kind):
    """The type of a tuple."""

    node = relay_types.TupleType

    def __new__(cls, fields: Sequence[relay_types.RelayType]) -> Anything:
        return relay_types.TupleType(tuple(fields))


class FuncType(metaclass=Kind):
    """The type of a function."""

    node = relay_types.FuncType

    def __new__(
        cls, arg_types: Sequence[relay_types.RelayType], ret_type: relay_types.RelayType, *parameters: object
    ) -> Anything:
        return relay_types.FuncType(tuple(arg_types), ret_type)


class Any(metaclass=Kind):
    """An unknown extent: ``relay.Any()`` is what shapes hold for it, None."""

    node = type(None)

    def __new__(cls) -> Anything:
        return None


class IncompleteType(metaclass=Kind):
    """The type of a variable that operators tell one of: what ``relay.var`` takes for no annotation, None."""

    node = type(None)

    def __new__(cls, kind: object = None) -> Anything:
        return None


def scalar_type(dtype: Anything) -> relay_types.TensorType:
    """The type of a tensor without dimensions."""
    return relay_types.TensorType((), dtype_text(dtype))


_WITHOUT_BITS = {"float": "float32", "int": "int32", "uint": "uint32"}
"""What TVM takes names without a number of bits for."""


def dtype_text(dtype: Anything) -> str:
    """A dtype as text, from text (where "float" is float32, as TVM has it) or what numpy takes for one."""
    if isinstance(dtype, str):
        return _WITHOUT_BITS.get(dtype, str(dtype))
    if isinstance(dtype, type | np.dtype):
        return np.dtype(dtype).name
    return str(dtype)


def _extent(extent: Anything) -> int | None:
    if isinstance(extent, int | np.integer):
        return int(extent)
    if isinstance(extent, tvm.tirx.IntImm):
        return int(extent.value)
    if extent is None or isinstance(extent, tvm.ir.Expr):
        return None
    raise TypeError(f"an extent is a number or relay.Any(), not {extent!r}")
