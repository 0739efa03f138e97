"""Where a loaded network computes: in this machine's memory, or in that of a GPU."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tvm

from relay_layout.errors import ArtifactError

_ALIGNMENT = 64
"""Bytes; TVM takes no memory from outside that begins elsewhere."""


class HostMemory:
    """This machine's memory: arrays of the caller are read where they lie, if they are aligned."""

    def __init__(self) -> None:
        self.device = tvm.cpu()
        self._buffers: dict[str, tuple[Any, np.ndarray]] = {}

    def weight(self, array: np.ndarray) -> Any:
        """A tensor over mapped weights; the mapping is private, so the file cannot change."""
        if array.size == 0:
            return tvm.runtime.tensor(array)
        array.flags.writeable = True
        return tvm.runtime.from_dlpack(array)

    def borrowed(self, array: np.ndarray) -> Any:
        """A tensor over memory of the caller's; None where it is not as aligned as kernels rely on."""
        if array.ctypes.data % _ALIGNMENT or not array.flags.writeable or array.size == 0:
            return None
        return tvm.runtime.from_dlpack(array)

    def copied(self, name: str, array: np.ndarray) -> Any:
        """A copy of an input, at the same address as the copy before if that had the same shape."""
        known = self._buffers.get(name)
        if known is None or known[1].shape != array.shape:
            tensor = tvm.runtime.empty(array.shape, str(array.dtype))
            known = self._buffers[name] = tensor, np.from_dlpack(tensor)
        np.copyto(known[1], array)
        return known[0]

    def fetched(self, tensor: Any) -> np.ndarray:
        """An output as an array of the caller's own."""
        return np.from_dlpack(tensor).copy()


class DeviceMemory:
    """A GPU's memory: everything is copied, each input to an address of its own, as CUDA graphs need it."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self._buffers: dict[tuple[str, tuple[int, ...]], Any] = {}

    def weight(self, array: np.ndarray) -> Any:
        """A copy of weights."""
        return tvm.runtime.tensor(array, self.device)

    def borrowed(self, array: np.ndarray) -> Any:
        """None: kernels do not reach the caller's memory."""
        del array

    def copied(self, name: str, array: np.ndarray) -> Any:
        """A copy of an input; inputs of one name and shape are at one address for good."""
        key = name, array.shape
        if key not in self._buffers:
            self._buffers[key] = tvm.runtime.empty(array.shape, str(array.dtype), self.device)
        return self._buffers[key].copyfrom(array)

    def fetched(self, tensor: Any) -> np.ndarray:
        """An output as an array of the caller's own."""
        return tensor.numpy()


def memory_of(target: Mapping[str, Any]) -> HostMemory | DeviceMemory:
    """The memory that code built for a manifest's target computes in.

    Raises ArtifactError for a GPU that TVM cannot use.
    """
    if target["kind"] != "cuda":
        return HostMemory()
    device = tvm.cuda(0)
    if not device.exist:
        raise ArtifactError(
            f"built for a GPU ({target['arch']}), but TVM finds none; install a TVM with CUDA"
        )
    return DeviceMemory(device)


__all__ = ["DeviceMemory", "HostMemory", "memory_of"]
