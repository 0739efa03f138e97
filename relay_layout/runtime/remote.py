"""Running an artifact on a board: upload its library and weights over RPC, feed arrays by name."""

import os
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np
import tvm
from tvm import relax

from relay_layout.artifact import Artifact, Build, Content, TensorSpec, check_inputs, read_artifact
from relay_layout.artifact.functions import ALONE
from relay_layout.environment.host import normalize_architecture
from relay_layout.errors import ArtifactError
from relay_layout.runtime.threads import WORKER_GROUP_BIG, set_own_threads
from topi_ext.machine.capabilities import CAPABILITIES, architecture_told, features_told
from topi_ext.tune.measuring.tracker import RemoteDevice, borrow

_STORED = "stored_main"
_NUMBERS = count()


class RemoteSession:
    """A network on the machine at the other end of ``connection`` (``tvm.rpc.RPCSession``).

    As :class:`relay_layout.runtime.session.Session`, but for one call at a time. The machine needs TVM alone.
    """

    on_gpu = False
    """Code for GPUs is not sent."""

    def __init__(
        self, artifact: Artifact, connection: Any, *, threads: int | None = None, target: str | None = None
    ) -> None:
        """Upload the library and the weights.

        ``threads`` is how many a call uses, by default as many as the kernels are shaped for. ``target``
        names one of the artifact's targets; otherwise it is the last one for the machine's architecture that
        the machine can run, or the first where it does not tell its CPU features: only code for 64-bit ARM
        can ask for them. Raises :class:`ArtifactError` where there is none.
        """
        self._device = connection.cpu(0)
        fitting = _fitting(artifact, normalize_architecture(architecture_told(connection)), target)
        library = _load(connection, fitting[0][1])
        features = _features(library, self._device)
        build, content = _runnable(artifact, fitting, features)
        if content is not fitting[0][1]:
            library = _load(connection, content)
        self.target = build.name
        self.inputs: tuple[TensorSpec, ...] = artifact.manifest.inputs
        self.outputs: tuple[TensorSpec, ...] = artifact.manifest.outputs
        self._conditions = artifact.manifest.conditions
        used = threads or build.num_threads_hint
        if used is not None and not set_own_threads(library, used):
            connection.get_function("runtime.config_threadpool")(WORKER_GROUP_BIG, used)
        self._machine = relax.VirtualMachine(library, self._device)
        self._size = connection.get_function("ffi.ArraySize")
        self._item = connection.get_function("ffi.ArrayGetItem")
        self._weights = [self._send(array) for array in content.weights.values()]

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Outputs by name, in the model's order.

        Raises :class:`InputError` naming the input where a shape, a dtype or a name is wrong.
        """
        self.feed(inputs)
        return dict(zip([spec.name for spec in self.outputs], self.execute(), strict=True))

    def seconds(self, inputs: Mapping[str, np.ndarray], repeat: int) -> list[float]:
        """Times of ``repeat`` calls on the machine itself, after one that does not count."""
        self.feed(inputs)
        return self.times(1, repeat)

    def execute(self) -> list[np.ndarray]:
        """The outputs of the inputs fed last, in the model's order."""
        return [tensor.numpy() for tensor in self._fields(self._machine[_STORED]())]

    def times(self, number: int, repeat: int, min_repeat_ms: float = 0) -> list[float]:
        """Times in seconds on the machine itself, on the inputs fed last, after a call that does not count.

        Each of ``repeat`` is the mean of ``number`` calls, or of as many as take ``min_repeat_ms``.
        """
        evaluate = self._machine.time_evaluator(
            _STORED, self._device, number=number, repeat=repeat, min_repeat_ms=int(min_repeat_ms)
        )
        return [float(time) for time in evaluate().results]

    def feed(self, inputs: Mapping[str, np.ndarray]) -> None:
        """Check the inputs, send them, and keep them and the weights as a function's arguments there."""
        accepted = check_inputs(self.inputs, inputs, self._conditions)
        tensors = [self._send(array) for array in accepted.values()]
        self._machine.save_function(ALONE, _STORED, *tensors, *self._weights)

    def _send(self, array: np.ndarray) -> Any:
        return tvm.runtime.tensor(np.ascontiguousarray(array), self._device)

    def _fields(self, result: Any) -> Sequence[Any]:
        """The tensors of a result, which is a reference to a tuple over there, or one tensor."""
        if isinstance(result, tvm.runtime.Tensor):
            return [result]
        return [self._item(result, index) for index in range(self._size(result))]


def open_session(
    path: str | os.PathLike[str],
    remote: RemoteDevice,
    *,
    seconds: float = 0.0,
    threads: int | None = None,
    target: str | None = None,
) -> RemoteSession:
    """Read an artifact and load it on a machine that a tracker lends, for at most ``seconds`` (0 for ever).

    ``threads`` and ``target`` as for :class:`RemoteSession`. Raises :class:`RelayLayoutError`.
    """
    artifact = read_artifact(path)
    return RemoteSession(artifact, borrow(remote, seconds), threads=threads, target=target)


def _load(connection: Any, content: Content) -> Any:
    # The file of a library that is loaded must stay as it is.
    name = f"network{next(_NUMBERS)}.so"
    connection.upload(bytearray(content.library), name)
    return connection.load_module(name)


def _features(library: Any, device: Any) -> frozenset[str] | None:
    """The CPU features of the machine that has loaded ``library``; None where it cannot tell."""
    if not library.implements_function(CAPABILITIES, True):
        return None
    return features_told(library.get_function(CAPABILITIES, True), device)


def _fitting(artifact: Artifact, architecture: str, target: str | None) -> list[tuple[Build, Content]]:
    """The targets in question for processors of an architecture, which is empty where it is not known."""
    found = list(zip(artifact.manifest.builds, artifact.contents, strict=True))
    fitting = [
        (build, content)
        for build, content in found
        if target in (None, build.name) and architecture in ("", _built_for(build))
        if build.target["kind"] != "cuda"
    ]
    if fitting:
        return fitting
    names = ", ".join(f"{build.name} ({_built_for(build)})" for build, _ in found)
    wanted = f"{target} " if target is not None else ""
    raise ArtifactError(
        f"{artifact.path}: holds no code {wanted}for the board, which is {architecture or 'not told'}; "
        f"it was built for {names}"
    )


def _runnable(
    artifact: Artifact, fitting: Sequence[tuple[Build, Content]], features: frozenset[str] | None
) -> tuple[Build, Content]:
    """The last of the targets that a machine with these features can run; the first if it tells none."""
    if features is None:
        return fitting[0]
    lacking = [set(build.target.get("features", ())) - features for build, _ in fitting]
    runnable = [found for missing, found in zip(lacking, fitting, strict=True) if not missing]
    if runnable:
        return runnable[-1]
    missing = min(lacking, key=len)
    raise ArtifactError(
        f"{artifact.path}: needs CPU feature{'s' if len(missing) > 1 else ''} {', '.join(sorted(missing))} "
        "which the board lacks; compile it for the board's processor"
    )


def _built_for(build: Build) -> str:
    if build.target["kind"] == "cuda":
        return "a GPU"
    return normalize_architecture(str(build.target["mtriple"]).split("-", 1)[0])
