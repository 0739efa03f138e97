"""Running an artifact: load it once, then feed arrays by name."""

import os
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax

from relay_layout.artifact import Artifact, TensorSpec, check_inputs, read_artifact
from relay_layout.errors import ArtifactError, InputError
from relay_layout.host import cpu_count
from relay_layout.lower.device_code import stored_code
from relay_layout.lower.workspace import WORKSPACE
from topi_ext.cuda.nvcc import machine_code

WORKER_GROUP_BIG = 1
"""TVM's thread affinity mode that starts from the fastest cores."""


_STORED = "stored_main"
_THREAD = threading.local()
"""``count``: how many threads the pool of this thread was last told to use."""


class Session:
    """A loaded network, with the memory of its intermediate results. Calls from several threads take turns.

    ``target`` is the name of the target whose code it runs.
    """

    def __init__(self, artifact: Artifact, *, threads: int | None = None, target: str | None = None) -> None:
        """Map the weights, load the library, and allocate the memory of intermediate results.

        ``threads`` is how many a call uses, all cores by default. ``target`` names one of the artifact's
        targets; otherwise it is the last that this machine can run.
        """
        build, content = artifact.choose(target)
        self._threads = _check_threads(threads)
        self.target = build.name
        self.artifact = artifact
        self.inputs: tuple[TensorSpec, ...] = artifact.manifest.inputs
        self.outputs: tuple[TensorSpec, ...] = artifact.manifest.outputs
        self._device = _device(build.target)
        self._machine = relax.VirtualMachine(_load_library(content.library), self._device)
        self._weights = [_share(array, self._device) for array in content.weights.values()]
        self._workspace = list(self._machine[WORKSPACE]())
        self._names = [spec.name for spec in self.outputs]
        self._feeds: dict[str, np.ndarray] = {}
        self._on_device: dict[str, Any] = {}
        self._main: Callable[[], Any] | None = None
        self._lock = threading.Lock()

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Outputs by name, in the model's order; they are the caller's own.

        Raises :class:`InputError` naming the input where a shape, a dtype or a name is wrong.
        """
        with self._lock:
            self._feed(inputs)
            found = self._execute()
            if self._on_host:
                arrays = [np.from_dlpack(tensor).copy() for tensor in found]
            else:
                arrays = [tensor.numpy() for tensor in found]
        return dict(zip(self._names, arrays, strict=True))

    def feed(self, inputs: Mapping[str, np.ndarray]) -> None:
        """Check the inputs and keep copies of them for :meth:`execute`; raises what :meth:`run` does."""
        with self._lock:
            self._feed(inputs)

    def execute(self) -> list[Any]:
        """The outputs, in the model's order, as TVM's tensors of their own, of the inputs fed last."""
        with self._lock:
            return [tvm.runtime.empty(found.shape, found.dtype).copyfrom(found) for found in self._execute()]

    def _feed(self, inputs: Mapping[str, np.ndarray]) -> None:
        if not self._fits(inputs):
            inputs = check_inputs(self.inputs, inputs)
            if not self._fits(inputs):
                self._allocate(inputs)
        for name, buffer in self._feeds.items():
            np.copyto(buffer, inputs[name])
        for name, tensor in self._on_device.items():
            tensor.copyfrom(self._feeds[name])

    def _fits(self, inputs: Mapping[str, np.ndarray]) -> bool:
        """Whether the inputs are like those that there is memory for, and so valid, as in most calls."""
        if self._main is None or len(inputs) != len(self._feeds):
            return False
        for name, buffer in self._feeds.items():
            array = inputs.get(name)
            if type(array) is not np.ndarray or array.shape != buffer.shape or array.dtype != buffer.dtype:
                return False
        return True

    def _allocate(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Make the memory that inputs of these shapes are copied to, as aligned as kernels rely on."""
        tensors = [
            tvm.runtime.empty(array.shape, str(array.dtype), self._device) for array in arrays.values()
        ]
        # With its arguments stored, a call does not convert each of them anew.
        self._machine.save_function("main", _STORED, *tensors, *self._weights, *self._workspace)
        self._main = self._machine[_STORED]
        if self._on_host:
            self._feeds = {name: np.from_dlpack(tensor) for name, tensor in zip(arrays, tensors, strict=True)}
        else:
            self._feeds = {name: np.empty_like(array) for name, array in arrays.items()}
            self._on_device = dict(zip(arrays, tensors, strict=True))

    @property
    def _on_host(self) -> bool:
        return bool(self._device.dlpack_device_type() == tvm.cpu().dlpack_device_type())

    def launch(self) -> None:
        """Run on the inputs fed last, and leave the outputs where they are; a GPU may still be at work
        then.
        """
        with self._lock:
            self._execute()

    def _execute(self) -> Sequence[Any]:
        """The outputs in memory that the next call overwrites."""
        if self._main is None:
            raise InputError("there is nothing to run before the inputs are fed")
        if getattr(_THREAD, "count", None) != self._threads:
            set_threads(self._threads)
        result = self._main()
        return [result] if isinstance(result, tvm.runtime.Tensor) else result


def load(path: str | os.PathLike[str], *, threads: int | None = None, target: str | None = None) -> Session:
    """Read, check and load an artifact; ``threads`` and ``target`` as for :class:`Session`.

    Raises :class:`ArtifactError` where it is damaged or was built for other machines, :class:`InputError` for
    a ``target`` that it was not built for.
    """
    return Session(read_artifact(Path(path)), threads=threads, target=target)


def set_threads(threads: int | None) -> None:
    """How many threads the pool that TVM has for the calling thread uses from now on; all cores for None.

    TVM by itself takes half of an x86 machine's. The pool's size is fixed when it is first used, so it is
    made as large as the machine; more threads than cores only wait for each other, so a larger number is
    taken as all cores.
    """
    count = _check_threads(threads)
    os.environ.setdefault("TVM_NUM_THREADS", str(cpu_count()))
    tvm.get_global_func("runtime.config_threadpool")(WORKER_GROUP_BIG, count)
    _THREAD.count = count


def _check_threads(threads: int | None) -> int:
    if threads is not None and threads < 1:
        raise InputError(f"threads: expected at least 1, got {threads}")
    cores = cpu_count()
    return min(threads or cores, cores)


def _load_library(library: bytes | bytearray | memoryview) -> Any:
    """Load a shared library from memory, through a file that is gone again when this returns."""
    with tempfile.TemporaryDirectory(prefix="relay-layout-") as folder:
        path = Path(folder) / "library.so"
        path.write_bytes(library)
        with machine_code(stored_code(path)):
            return tvm.runtime.load_module(str(path))


def _device(target: Mapping[str, Any]) -> Any:
    """Where what was built for a target runs; ArtifactError where this machine has no such device."""
    if target["kind"] != "cuda":
        return tvm.cpu()
    device = tvm.cuda(0)
    if not device.exist:
        raise ArtifactError(f"built for a GPU ({target['arch']}), but no CUDA device is found here")
    found = str(device.compute_version).replace(".", "")
    if f"sm_{found}" != target["arch"]:
        raise ArtifactError(
            f"built for {target['arch']}, this machine's GPU is sm_{found}; compile it for that"
        )
    return device


def _share(array: np.ndarray, device: Any) -> Any:
    """A TVM tensor over the mapped weights; the mapping is private, so the file cannot change.

    Elsewhere than on the host it is a copy.
    """
    if device.dlpack_device_type() != tvm.cpu().dlpack_device_type():
        return tvm.runtime.tensor(array, device)
    if array.size == 0:
        return tvm.runtime.tensor(array)
    array.flags.writeable = True
    return tvm.runtime.from_dlpack(array)
