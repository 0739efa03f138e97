"""Networks that a GPU computes, by TVM's CUDA runtime."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tvm

from relay_layout.errors import ArtifactError
from relay_layout.lower.library.device_code import stored_code
from relay_layout.runtime.cpu import Results
from topi_ext.cuda.codegen.nvcc import machine_code
from topi_ext.cuda.codegen.window_maps import provide_window_maps


class Gpu:
    """A GPU and its memory: all is copied, each input to an address of its own, as CUDA graphs need it."""

    kept_for = 64
    """As of :class:`relay_layout.runtime.cpu.Cpu`; memory of a GPU is given back less readily."""

    def __init__(self, device: Any) -> None:
        """``device`` is one of ``tvm.runtime``."""
        self.devices = (device, tvm.cpu())
        self._device = device
        self._buffers: dict[tuple[str, tuple[int, ...]], Any] = {}

    def load(self, library: Path) -> Any:
        """The module of a shared library, with the machine code that lies in it."""
        provide_window_maps()
        with machine_code(stored_code(library)):
            return tvm.runtime.load_module(str(library))

    def weight(self, array: np.ndarray) -> Any:
        """A copy of weights."""
        return tvm.runtime.tensor(array, self._device)

    def borrowed(self, array: np.ndarray) -> Any:
        """None: kernels do not reach the caller's memory."""

    def copied(self, name: str, array: np.ndarray) -> Any:
        """A copy of an input; inputs of one name and shape are at one address for good."""
        key = name, array.shape
        if key not in self._buffers:
            self._buffers[key] = tvm.runtime.empty(array.shape, str(array.dtype), self._device)
        return self._buffers[key].copyfrom(array)

    def results(self, kept: Sequence[Any]) -> Callable[[], Results]:
        """What gives the tensors that a network keeps for its outputs, for CUDA graphs need them there."""
        return lambda: Results(list(kept), [])

    def hold(self, tensors: Sequence[Any]) -> None:
        """Nothing: outputs are copied."""

    def occupied(self, results: Results, inputs: Sequence[Any], item_bytes: Sequence[int]) -> None:
        """None: outputs are copied."""

    def fetched(self, tensor: Any, occupied: None = None) -> np.ndarray:
        """An output as an array of the caller's own."""
        return tensor.numpy()


def first_gpu(arch: str) -> Gpu:
    """The first GPU, for code of an architecture (``sm_90``). ArtifactError where TVM cannot use any."""
    device = tvm.cuda(0)
    if not device.exist:
        raise ArtifactError(f"built for a GPU ({arch}), but TVM finds none; install a TVM with CUDA")
    return Gpu(device)
