"""Looks into tables of 256 bytes, for a vector of bytes at once.

An element of a table for each lane is a load for each lane, unless the processor permutes bytes: AVX512_VBMI
chooses among 128 of them (VPERMI2B), and ARM among 64 (TBL, TBX).
"""

from typing import Any

from tvm import tirx
from tvm.ir import TensorLoad

from topi_ext.codegen.llvm_functions import PERMUTED_BYTES, has_permutations, permuted
from topi_ext.codegen.passes import function_pass, replaced
from topi_ext.codegen.scalar_operations import element_of, lanes_of
from topi_ext.extents import fixed
from topi_ext.ir import nodes_of

_TABLE_BYTES = 256
"""Elements of a table that a byte indexes."""


@function_pass
def lower_byte_lookups(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """To be run on vectorized functions that are bound to their target."""
    casts = nodes_of(func.body, tirx.Cast)
    # Most functions have no byte for a place, and to look at all that they load takes long.
    if not any(map(_is_of_byte, casts)):
        return func
    target = func.attrs["target"]

    def on_load(load: Any) -> Any:
        places = _bytes_looked_up(load)
        if places is None or not has_permutations(target, lanes_of(places)):
            return load
        return permuted(target, places, _parts(load.source))

    return replaced(func, (TensorLoad, on_load))


def _bytes_looked_up(load: Any) -> Any:
    """The bytes whose elements of a table are loaded; None where that is something else."""
    buffer = load.source
    if str(buffer.dtype) != "uint8" or len(buffer.shape) != 1 or len(load.indices) != 1:
        return None
    extent, place = buffer.shape[0], load.indices[0]
    if fixed(extent) != _TABLE_BYTES:
        return None
    return place.value if isinstance(place, tirx.Cast) and _is_of_byte(place) else None


def _is_of_byte(cast: tirx.Cast) -> bool:
    return element_of(cast.value) == "uint8"


def _parts(table: Any) -> list[Any]:
    """The table, in vectors that are permuted."""
    first = range(0, _TABLE_BYTES, PERMUTED_BYTES)
    return [tirx.BufferLoad(table, [tirx.Ramp(place, 1, PERMUTED_BYTES)]) for place in first]
