"""The maps of windows that TVM's runtime does not make: ``cuTensorMapEncodeIm2col`` of NVIDIA's driver.

Kernels with bulk copies of windows call :data:`ENCODE_WINDOWS` when they are launched; who runs them provides
it.
"""

import ctypes
from functools import cache
from typing import Any

import tvm_ffi

from topi_ext.errors import CudaError
from topi_ext.knobs import DTYPE_BYTES

ENCODE_WINDOWS = "topi_ext.encode_window_map"
"""A global function of (map, dtype, data, channels, columns, rows, images, lower corner's column and row,
upper corner's, steps along columns and rows, channels and pixels of a tile, swizzle, promotion)."""

_RANK = 4
_DTYPES = {"uint8": 0, "int8": 0, "float16": 6, "float32": 7}
"""CUtensorMapDataType."""


@cache
def _driver() -> Any:
    try:
        return ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeIm2col
    except (OSError, AttributeError) as error:
        raise CudaError(f"bulk copies of windows need NVIDIA's driver 525 or later: {error}") from None


def encode_windows(place: Any, dtype: Any, data: Any, *numbers: int) -> None:
    """Make the map; CudaError where there is no driver or it refuses."""
    encode = _driver()
    name = str(dtype)
    extents, lower, upper, steps = numbers[:4], numbers[4:6], numbers[6:8], numbers[8:10]
    channels, pixels, swizzle, promotion = numbers[10:]
    strides, stride = [], DTYPE_BYTES[name]
    for extent in extents[:-1]:
        stride *= extent
        strides.append(stride)
    status = encode(
        _pointer(place),
        ctypes.c_int(_DTYPES[name]),
        ctypes.c_uint32(_RANK),
        _pointer(data),
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


def _pointer(handle: Any) -> ctypes.c_void_p:
    return handle if isinstance(handle, ctypes.c_void_p) else ctypes.c_void_p(int(handle))


def provide_window_maps() -> None:
    """Let kernels of this process find the encoder."""
    tvm_ffi.register_global_func(ENCODE_WINDOWS, encode_windows, override=True)


__all__ = ["ENCODE_WINDOWS", "encode_windows", "provide_window_maps"]
