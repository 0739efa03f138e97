"""Running an artifact: load it once, then feed arrays by name."""

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax

from relay_layout.artifact import Artifact, TensorSpec, check_inputs, read_artifact
from relay_layout.errors import InputError
from relay_layout.host import cpu_count

WORKER_GROUP_BIG = 1
"""TVM's thread affinity mode that starts from the fastest cores."""


class Session:
    """A loaded network. Not for use by several threads at once; load one per thread.

    ``target`` is the name of the target whose code it runs.
    """

    def __init__(self, artifact: Artifact, *, threads: int | None = None, target: str | None = None) -> None:
        """Map the weights, load the library, and set the number of threads (all cores by default).

        ``target`` names one of the artifact's targets; otherwise it is the last that this machine can run.
        """
        build, content = artifact.choose(target)
        set_threads(threads)
        self.target = build.name
        self.artifact = artifact
        self.inputs: tuple[TensorSpec, ...] = artifact.manifest.inputs
        self.outputs: tuple[TensorSpec, ...] = artifact.manifest.outputs
        self._machine = relax.VirtualMachine(_load_library(content.library), tvm.cpu())
        self._main = self._machine["main"]
        self._weights = [_share(array) for array in content.weights.values()]
        self._buffers: dict[str, Any] = {}

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Outputs by name, in the model's order.

        Raises :class:`InputError` naming the input where a shape, a dtype or a name is wrong.
        """
        tensors = self.execute(self.feed(inputs))
        return {spec.name: tensor.numpy() for spec, tensor in zip(self.outputs, tensors, strict=True)}

    def feed(self, inputs: Mapping[str, np.ndarray]) -> list[Any]:
        """The inputs as TVM's tensors in the network's order, checked; they hold until the next call."""
        return [self._feed(name, array) for name, array in check_inputs(self.inputs, inputs).items()]

    def execute(self, tensors: Sequence[Any]) -> list[Any]:
        """The outputs as TVM's tensors, of inputs that :meth:`feed` gave."""
        result = self._main(*tensors, *self._weights)
        return [result] if isinstance(result, tvm.runtime.Tensor) else list(result)

    def _feed(self, name: str, array: np.ndarray) -> Any:
        """The input in memory with the alignment that kernels rely on; one buffer serves all calls."""
        buffer = self._buffers.get(name)
        if buffer is None or tuple(buffer.shape) != array.shape:
            buffer = tvm.runtime.empty(array.shape, str(array.dtype))
            self._buffers[name] = buffer
        buffer.copyfrom(array)
        return buffer


def load(path: str | os.PathLike[str], *, threads: int | None = None, target: str | None = None) -> Session:
    """Read, check and load an artifact; ``threads`` and ``target`` as for :class:`Session`.

    Raises :class:`ArtifactError` where it is damaged or was built for other machines, :class:`InputError` for
    a ``target`` that it was not built for.
    """
    return Session(read_artifact(Path(path)), threads=threads, target=target)


def set_threads(threads: int | None) -> None:
    """How many threads TVM's pool uses from now on; TVM by itself takes half of an x86 machine's.

    The pool's size is fixed when it is first used, so it is made as large as the machine; more threads
    than cores only wait for each other, so a larger number is taken as all cores.
    """
    if threads is not None and threads < 1:
        raise InputError(f"threads: expected at least 1, got {threads}")
    cores = cpu_count()
    count = min(threads or cores, cores)
    os.environ.setdefault("TVM_NUM_THREADS", str(cores))
    tvm.get_global_func("runtime.config_threadpool")(WORKER_GROUP_BIG, count)


def _load_library(library: bytes | bytearray | memoryview) -> Any:
    """Load a shared library from memory, through a file that is gone again when this returns."""
    with tempfile.TemporaryDirectory(prefix="relay-layout-") as folder:
        path = Path(folder) / "library.so"
        path.write_bytes(library)
        return tvm.runtime.load_module(str(path))


def _share(array: np.ndarray) -> Any:
    """A TVM tensor over the mapped weights; the mapping is private, so the file cannot change."""
    if array.size == 0:
        return tvm.runtime.tensor(array)
    array.flags.writeable = True
    return tvm.runtime.from_dlpack(array)
