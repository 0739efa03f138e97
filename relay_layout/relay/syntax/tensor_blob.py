"""Tensors as TVM stores them: in files of parameters and in the JSON of a module."""

import math
import struct

import numpy as np

from relay_layout.errors import ModelError
from relay_layout.relay.syntax import data_types

_MAGIC = 0xDD5E40F096B4A13F
_CPU = 1
_MAX_DIMENSIONS = 32
_HEADER = struct.Struct("<QQiiiBBH")


class ByteReader:
    """A position within bytes, for reads that never leave them."""

    def __init__(self, data: bytes | bytearray | memoryview, name: str) -> None:
        self.data = memoryview(data).cast("B")
        self.name = name
        self.offset = 0

    @property
    def remaining(self) -> int:
        """How many bytes are left."""
        return len(self.data) - self.offset

    def error(self, message: str, offset: int | None = None) -> ModelError:
        """The error to raise for what stands at an offset, which is the position unless given."""
        return ModelError(f"{self.name}: byte {self.offset if offset is None else offset}: {message}")

    def take(self, size: int, what: str) -> memoryview:
        """Read ``size`` bytes; ``what`` is their name in a message."""
        if size > self.remaining:
            raise self.error(
                f"expected {what} of {size} bytes, found {self.remaining}; the file is truncated or damaged"
            )
        taken = self.data[self.offset : self.offset + size]
        self.offset += size
        return taken

    def unsigned(self, what: str) -> int:
        """Read an unsigned 64-bit integer."""
        return int.from_bytes(self.take(8, what), "little")


def read_blob(reader: ByteReader) -> np.ndarray:
    """Read one tensor into an array of its own.

    Raises ModelError when the bytes are no tensor, end too early or contradict each other, and for data
    types that numpy has no array of.
    """
    start = reader.offset
    header = _HEADER.unpack(reader.take(_HEADER.size, "the header of a tensor"))
    magic, _, _, _, dimensions, code, bits, lanes = header
    if magic != _MAGIC:
        raise reader.error("expected a tensor, found other data", start)
    if not 0 <= dimensions <= _MAX_DIMENSIONS:
        raise reader.error(
            f"expected a tensor of at most {_MAX_DIMENSIONS} dimensions, found {dimensions}", start
        )
    dtype = _numpy_dtype(reader, start, code, bits, lanes)
    shape = struct.unpack(f"<{dimensions}q", reader.take(8 * dimensions, "the shape of a tensor"))
    if any(dimension < 0 for dimension in shape):
        raise reader.error(f"expected a shape of zero or more per dimension, found {list(shape)}", start)
    # numpy multiplies all dimensions but the zeros, in 64 bits, even for an array without elements.
    if math.prod(max(dimension, 1) for dimension in shape) * dtype.itemsize >= 2**62:
        raise reader.error(f"expected a shape whose tensor can exist, found {list(shape)}", start)
    size = math.prod(shape) * dtype.itemsize
    declared = reader.unsigned("the size of a tensor")
    if declared != size:
        raise reader.error(
            f"expected {size} bytes for shape {list(shape)} of {dtype.name}, found {declared} declared", start
        )
    data = reader.take(size, "the data of a tensor")
    if dtype == np.bool_:
        return (np.frombuffer(data, np.uint8) != 0).reshape(shape)
    return np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype, copy=True).reshape(shape)


def _numpy_dtype(reader: ByteReader, start: int, code: int, bits: int, lanes: int) -> np.dtype:
    name = data_types.name_of_code(code, bits) if lanes == 1 else None
    if name is None:
        raise reader.error(
            f"expected a tensor of a known data type, found code {code}, {bits} bits, {lanes} lanes", start
        )
    if name not in data_types.NUMPY_DTYPES:
        raise reader.error(f"tensors of {name} are not supported; store the tensor as float32 or int8", start)
    return data_types.NUMPY_DTYPES[name]


def write_blob(array: np.ndarray) -> bytes:
    """The bytes of one tensor.

    Raises ModelError for data types that Relay does not have.
    """
    # ascontiguousarray makes scalars one-dimensional.
    array = np.asarray(array)
    name = array.dtype.name
    if name not in data_types.NUMPY_DTYPES:
        known = ", ".join(sorted(data_types.NUMPY_DTYPES))
        raise ModelError(f"a tensor of {name} cannot be stored; known data types are {known}")
    code, bits = data_types.CODES[name]
    data = array.astype(array.dtype.newbyteorder("<")).tobytes()
    header = _HEADER.pack(_MAGIC, 0, _CPU, 0, array.ndim, code, bits, 1)
    return header + struct.pack(f"<{array.ndim}qq", *array.shape, len(data)) + data
