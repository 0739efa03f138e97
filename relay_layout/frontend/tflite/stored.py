"""What the tflite package, or TVM's converter, does not read of files of TensorFlow Lite as it is meant.

Tensors may lie behind the tables, where offsets say; numbers of operators may be in the newer of two fields
alone; and weights of four bits lie two in a byte.
"""

from typing import Any

import numpy as np
import tflite
from numpy.typing import NDArray

_PLACED = 1
"""Offsets up to this one say that a tensor has none."""

_NUMBER = 10
"""Where the table of an operator's code has the newer field of its number."""


class StoredModel(tflite.Model):
    """A model as the tflite package holds it, with all tensors and all numbers of operators."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.Init(model._tab.Bytes, model._tab.Pos)

    def Buffers(self, j: int) -> Any:
        """The data of a tensor."""
        found = super().Buffers(j)
        return _placed(_BufferBehind, found) if found.Offset() > _PLACED else found

    def OperatorCodes(self, j: int) -> Any:
        """The name of an operator, by number."""
        return _placed(_OperatorCode, super().OperatorCodes(j))


class _BufferBehind(tflite.Buffer):
    """Data that lie behind the tables of a file."""

    def DataAsNumpy(self) -> NDArray[Any]:
        offset, size, held = int(self.Offset()), int(self.Size()), len(self._tab.Bytes)
        if offset + size > held:
            raise ValueError(f"{size} bytes of a tensor at {offset} lie beyond the end of the file, {held}")
        return np.frombuffer(self._tab.Bytes, "uint8", size, offset)

    def DataLength(self) -> int:
        return int(self.Size())


class _OperatorCode(tflite.OperatorCode):
    """An operator whose number may be in the newer field alone."""

    def BuiltinCode(self) -> int:
        place = self._tab.Offset(_NUMBER)
        start = self._tab.Pos + place
        number = int.from_bytes(self._tab.Bytes[start : start + 4], "little") if place else 0
        return max(number, int(self.DeprecatedBuiltinCode()))


class _Byte(tflite.Tensor):
    """A constant tensor of four bits, as one of bytes."""

    def Type(self) -> int:
        return int(tflite.TensorType.INT8)


class _Unpacked:
    """Data of four bits, each in a byte; the lower half of a byte comes first."""

    def __init__(self, packed: NDArray[Any], count: int) -> None:
        pairs = packed.view("int8")
        self._data = np.stack([pairs << 4 >> 4, pairs >> 4], -1).reshape(-1)[:count].view("uint8")

    def DataAsNumpy(self) -> NDArray[Any]:
        return self._data

    def DataLength(self) -> int:
        return int(self._data.size)


def unpacked(tensor: Any) -> Any:
    """A tensor as TVM's converter holds it; constants of four bits as bytes. ValueError for other scales."""
    table = tensor.tensor
    if not table:
        return tensor
    quantization = table.Quantization()
    if quantization is not None and quantization.DetailsType() and not quantization.ScaleLength():
        name = (table.Name() or b"").decode("utf-8", "replace")
        raise ValueError(f"tensor '{name}' has scales of blocks: quantize by tensor or by channel")
    packed = tensor.buffer.DataAsNumpy() if table.Type() == tflite.TensorType.INT4 else None
    if isinstance(packed, np.ndarray):
        count = int(np.prod(table.ShapeAsNumpy())) if table.ShapeLength() else 1
        tensor.tensor, tensor.buffer = _placed(_Byte, table), _Unpacked(packed, count)
    return tensor


def _placed(kind: Any, table: Any) -> Any:
    """A table of a file, as one of another class."""
    result = kind()
    result.Init(table._tab.Bytes, table._tab.Pos)
    return result
