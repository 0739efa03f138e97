"""The maps of windows that TVM's runtime does not make: ``cuTensorMapEncodeIm2col`` of NVIDIA's driver.

Kernels with bulk copies of windows call :data:`ENCODE_WINDOWS` when they are launched; who runs them provides
it.
"""

import ctypes
from functools import cache, lru_cache
from typing import Any

import tvm_ffi

from topi_ext.dtypes import DTYPE_BYTES
from topi_ext.errors import CudaError

ENCODE_WINDOWS = "topi_ext.encode_window_map"
"""A global function of (map, dtype, data, channels, columns, rows, images, lower corner's column and row,
upper corner's, steps along columns and rows, channels and pixels of a tile, swizzle, promotion)."""

_RANK = 4
_MAP_BYTES, _MAP_ALIGNMENT = 128, 64
"""Size and alignment of a CUtensorMap."""
_DTYPES = {"uint8": 0, "int8": 0, "float16": 6, "float32": 7}
"""CUtensorMapDataType."""


@cache
def _driver() -> Any:
    try:
        return ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeIm2col
    except (OSError, AttributeError) as error:
        raise CudaError(f"bulk copies of windows need NVIDIA's driver 525 or later: {error}") from None


def encode_windows(place: Any, dtype: Any, data: Any, *numbers: int) -> None:
    """Make the map; CudaError where there is no driver or it refuses.

    The driver is asked once for each tensor: to ask it at every launch takes as long as a kernel does, and
    measuring without a graph would see nothing else.
    """
    encoded = _encoded(str(dtype), _address(data), numbers)
    ctypes.memmove(_address(place), encoded, _MAP_BYTES)


@lru_cache(maxsize=1024)
def _encoded(name: str, data: int, numbers: tuple[int, ...]) -> bytes:
    """The bytes of a map, which nothing but its arguments decides."""
    encode = _driver()
    extents, lower, upper, steps = numbers[:4], numbers[4:6], numbers[6:8], numbers[8:10]
    channels, pixels, swizzle, promotion = numbers[10:]
    strides, stride = [], DTYPE_BYTES[name]
    for extent in extents[:-1]:
        stride *= extent
        strides.append(stride)
    # The driver wants maps at multiples of their alignment.
    memory = (ctypes.c_uint64 * (2 * _MAP_BYTES // 8))()
    place = -(-ctypes.addressof(memory) // _MAP_ALIGNMENT) * _MAP_ALIGNMENT
    status = encode(
        ctypes.c_void_p(place),
        ctypes.c_int(_DTYPES[name]),
        ctypes.c_uint32(_RANK),
        ctypes.c_void_p(data),
        (ctypes.c_uint64 * _RANK)(*extents),
        (ctypes.c_uint64 * (_RANK - 1))(*strides),
        (ctypes.c_int * 2)(*lower),
        (ctypes.c_int * 2)(*upper),
        ctypes.c_uint32(channels),
        ctypes.c_uint32(pixels),
        (ctypes.c_uint32 * _RANK)(1, *steps, 1),
        ctypes.c_int(0),
        ctypes.c_int(swizzle),
        ctypes.c_int(promotion),
        ctypes.c_int(0),
    )
    if status:
        raise CudaError(f"cuTensorMapEncodeIm2col of {name} {extents} fails with {status}")
    return ctypes.string_at(place, _MAP_BYTES)


def _address(handle: Any) -> int:
    return int(handle.value or 0) if isinstance(handle, ctypes.c_void_p) else int(handle)


def provide_window_maps() -> None:
    """Let kernels of this process find the encoder."""
    tvm_ffi.register_global_func(ENCODE_WINDOWS, encode_windows, override=True)
