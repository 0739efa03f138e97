"""Running an artifact: load it once, then feed arrays by name."""

import os
import re
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import tvm_ffi

from relay_layout.artifact import Artifact, TensorSpec, check_inputs, read_artifact
from relay_layout.artifact.functions import DESTINATIONS, MAIN, OUTPUTS, WORKSPACE
from relay_layout.errors import ArtifactError, InputError, RelayLayoutError
from relay_layout.runtime.cpu import Cpu, tensor_over
from relay_layout.runtime.threads import set_own_threads, thread_count, use_threads
from relay_layout.runtime.turns import Turns
from relay_layout.runtime.virtual_machine import NO_MEMORY, Machine, is_of_memory, memory_errors
from topi_ext.files.temporary_folder import TemporaryFolder
from topi_ext.messages import first_line, system_message

_BOUND = "bound_main"
"""What "main" is called with its weights and the memory of its intermediate results."""

_MISFIT = re.compile(r"\((\d+) vs\. (\d+)\) : ErrorContext\(match_cast.*shape\[(\d+)\]", re.DOTALL)
"""What TVM says of an extent that is not what others make of it."""

_LACK = re.compile(r"View with shape (\[[\d, ]*\]).* bytes \(shape = (\[[\d, ]*\])", re.DOTALL)
"""What TVM says of a tensor that has fewer elements than it is read for."""


class Session:
    """A loaded network, with the memory of its intermediate results, all of which ends with the session.

    Calls from several threads take turns. A child that the process forks has the session too, with threads
    and memory of its own. ``target`` is the name of the target whose code it runs.
    """

    def __init__(
        self,
        artifact: Artifact,
        *,
        threads: int | None = None,
        target: str | None = None,
        permute: bool | None = None,
    ) -> None:
        """Map the weights, load the library, and allocate the memory of intermediate results.

        ``threads`` is how many a call uses, all cores by default. ``target`` names one of the artifact's
        targets; otherwise it is the last that this machine can run. ``permute`` says what becomes of an
        input that does not lie in memory as the artifact expects: True copies it into order, False refuses
        it, None refuses it where the order was declared by the model or its user.
        """
        if permute not in (True, False, None):
            raise InputError(f"permute: expected True, False or None, got {permute!r}")
        build, content = artifact.choose(target)
        self._threads = thread_count(threads)
        self.permute = permute
        self.target = build.name
        self.artifact = artifact
        self.inputs: tuple[TensorSpec, ...] = artifact.manifest.inputs
        self.outputs: tuple[TensorSpec, ...] = artifact.manifest.outputs
        self.copied: tuple[str, ...] = ()
        """Names of the inputs that the last call copied; the others were read where they lie."""
        self.on_gpu = build.target["kind"] == "cuda"
        """Whether the code is a GPU's; its kernels are launched all at once then."""
        self._device = _gpu(build.target["arch"]) if self.on_gpu else Cpu()
        library = _load_library(content.library, self._device.load)
        self._owns_threads = set_own_threads(library, self._threads)
        if self._owns_threads:
            # Threads end before the library that they run in is unloaded.
            self._end_threads: Callable[[], object] = weakref.finalize(self, set_own_threads, library, 1)
        self._machine = Machine(library, self._device.devices)
        arrays = {id(array): array for array in content.weights.values()}
        tensors = {key: self._device.weight(array) for key, array in arrays.items()}
        weights = [tensors[id(array)] for array in content.weights.values()]
        with memory_errors():
            self._destinations = list(self._machine[DESTINATIONS]())
            self._new_results = self._device.results(self._destinations)
            workspace = self._machine[WORKSPACE]()
            lies_in = [list(shape) for shape in self._machine[OUTPUTS]()]
        self._device.hold(workspace)
        # Calls pass and convert inputs and destinations alone.
        self._entry = self._machine.bind(MAIN, _BOUND, *weights, *workspace)
        self._open = [not all(isinstance(extent, int) for extent in spec.shape) for spec in self.outputs]
        self._has_open = any(self._open)
        # Of a GPU the memory of results is not a caller's.
        self._own = [None if self.on_gpu else place or None for place in lies_in]
        self._is_in_results = self._own == [
            [number, *tensor.shape] for number, tensor in enumerate(self._destinations)
        ]
        self._input_names = [spec.name for spec in self.inputs]
        self._item_bytes = [np.dtype(spec.dtype).itemsize for spec in self.inputs]
        self._output_names = [spec.name for spec in self.outputs]
        axes = [_axes_in_memory(spec) for spec in self.outputs]
        self._permuted = [(place, own) for place, own in enumerate(axes) if own is not None]
        self._fed: list[Any] | None = None
        self._accepted: dict[str, Any] | None = None
        self._borrowed: dict[str, Any] | None = None
        self._calls = 0
        self._turns = Turns()
        self._is_closed = False

    def __repr__(self) -> str:
        return f"Session(target={self.target!r}, threads={self._threads}, inputs={self.inputs!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Session holds mapped memory and a loaded library, so it is neither pickled nor copied; "
            "relay_layout.load the artifact in each process"
        )

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give back threads, memory and the library, once the calls of other threads are done.

        It happens by itself with the last reference. Outputs stay the caller's; any further call is an
        :class:`InputError`.
        """
        with self._turns.lock:
            if self._is_closed:
                return
            self._is_closed = True
            if self._owns_threads:
                self._end_threads()
            del self._machine, self._entry, self._destinations, self._new_results, self._device
            self._fed = None
            self.artifact = replace(self.artifact, contents=())

    def run(self, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Outputs by name, in the model's order; they are the caller's own.

        Inputs are numpy arrays, or anything on the CPU that DLPack takes: tensors of PyTorch, TVM and
        others. One that lies in the declared order is read where it lies, unless it is read-only or the code
        is a GPU's. Outputs lie in their declared order, too.

        Raises :class:`InputError` naming the input where a shape, a dtype, a name or an order is wrong.
        """
        with self._turns.lock:
            tensors = self._staged(inputs, borrow=True)
            if self._fed and any(one is other for one, other in zip(tensors, self._fed, strict=True)):
                # What was fed is overwritten.
                self._fed = None
            arrays = self._computed(tensors)
        for place, axes in self._permuted:
            arrays[place] = arrays[place].transpose(axes)
        return dict(zip(self._output_names, arrays, strict=True))

    def feed(self, inputs: Mapping[str, Any]) -> None:
        """Check the inputs and keep copies of them for :meth:`execute`; raises what :meth:`run` does."""
        with self._turns.lock:
            self._fed = self._staged(inputs, borrow=False)

    def execute(self) -> list[np.ndarray]:
        """The outputs of the inputs fed last, in the model's order; they are the caller's own.

        An output with a dim_order has the shape that it has in memory.
        """
        with self._turns.lock:
            return self._computed(self._fed_tensors())

    def launch(self) -> None:
        """Run on the inputs fed last, leave the outputs where they are; a GPU may then still be at work."""
        with self._turns.lock:
            self._called(self._fed_tensors(), self._destinations)

    @property
    def threads(self) -> int:
        """How many threads a call uses."""
        return self._threads

    def observe(self, observer: Callable[..., int]) -> None:
        """Have ``observer`` called before and after every kernel, as :meth:`Machine.observe` does."""
        self._check_open()
        self._machine.observe(observer)

    def _computed(self, tensors: Sequence[Any]) -> list[np.ndarray]:
        """The outputs for these inputs; they are the caller's own."""
        results = self._new_results()
        found = self._called(tensors, results.tensors)
        if self._is_in_results:
            return results.arrays
        occupied = self._device.occupied(results, tensors, self._item_bytes) if self._has_open else None
        arrays = []
        for place, (own, is_open) in enumerate(zip(self._own, self._open, strict=True)):
            if own is None:
                arrays.append(self._device.fetched(found[place], occupied if is_open else None))
            else:
                number, *shape = own
                arrays.append(results.arrays[number].reshape(shape))
        return arrays

    def _called(self, tensors: Sequence[Any], destinations: Sequence[Any]) -> Sequence[Any]:
        """The outputs, in ``destinations`` or in memory that the next call overwrites."""
        if not self._owns_threads:
            use_threads(self._threads)
        self._calls += 1
        # What is kept is of use for a call of the same sizes, and sizes may differ in every call.
        if self._calls % self._device.kept_for == 0:
            self._machine.release()
        try:
            found = self._entry(*tensors, *destinations)
        except (RuntimeError, ValueError) as error:
            if is_of_memory(error):
                raise MemoryError(NO_MEMORY) from None
            message = _misfit(str(error))
            if message is None:
                raise
            raise InputError(message) from None
        return [found] if isinstance(found, tvm_ffi.Tensor) else found

    def _staged(self, inputs: Mapping[str, Any], *, borrow: bool) -> list[Any]:
        """Tensors of the inputs, once checked: over the caller's memory where it may be, or in buffers."""
        self._check_open()
        if not isinstance(inputs, Mapping):
            names = ", ".join(f"'{spec.name}': ..." for spec in self.inputs)
            raise InputError(f"inputs: expected a dict {{{names}}}, got {type(inputs).__name__}")
        given = {name: as_array(value, name) for name, value in inputs.items()}
        looks = {name: _look(value) for name, value in given.items()}
        if borrow and looks == self._borrowed:
            self.copied = ()
            return [tensor_over(given[name]) for name in self._input_names]
        accepted = given if looks == self._accepted else self._checked(given, inputs)
        tensors, copied = [], []
        for name in self._input_names:
            array = accepted[name]
            shared = borrow and (array is given[name] or np.may_share_memory(array, given[name]))
            tensor = self._device.borrowed(array) if shared else None
            if tensor is None:
                tensor = self._device.copied(name, array)
                copied.append(name)
            tensors.append(tensor)
        self.copied = tuple(copied)
        # Where inputs are taken as they are, so are others that look the same.
        as_they_are = all(accepted[name] is value for name, value in given.items())
        self._accepted = looks if as_they_are else None
        self._borrowed = looks if as_they_are and borrow and not copied else None
        return tensors

    def _checked(self, given: Mapping[str, Any], inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """The inputs as the network takes them, of the arrays over what the caller has."""
        conditions = self.artifact.manifest.conditions
        of_torch = [name for name, value in inputs.items() if _is_torch(value)]
        return check_inputs(self.inputs, given, conditions, permute=self.permute, of_torch=of_torch)

    def _fed_tensors(self) -> Sequence[Any]:
        self._check_open()
        if self._fed is None:
            raise InputError("there is nothing to run before the inputs are fed")
        return self._fed

    def _check_open(self) -> None:
        if self._is_closed:
            raise InputError("the session is closed; relay_layout.load the artifact again")


def load(
    path: str | os.PathLike[str],
    *,
    threads: int | None = None,
    target: str | None = None,
    permute: bool | None = None,
) -> Session:
    """Read, check and load an artifact; the options are those of :class:`Session`.

    Raises :class:`ArtifactError` where it is damaged or was built for other machines, :class:`InputError` for
    a ``target`` that it was not built for, and for a ``path`` that is none.
    """
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"an artifact is loaded from the path of its file, not from {type(path).__name__}")
    return Session(read_artifact(path), threads=threads, target=target, permute=permute)


def _gpu(arch: str) -> Any:
    # It needs the compiler's package, whose import takes longer than loading a network.
    from relay_layout.runtime.gpu import first_gpu

    return first_gpu(arch)


def _load_library(library: bytes | bytearray | memoryview, load: Callable[[Path], Any]) -> Any:
    """Load a shared library from memory, through a file that is gone again when this returns.

    ArtifactError where no folder for temporary files takes one, or programs are not loaded from there.
    """
    try:
        with TemporaryFolder() as folder:
            path = Path(folder) / "library.so"
            path.write_bytes(library)
            return load(path)
    except (RelayLayoutError, OSError) as error:
        reason = system_message(error) if isinstance(error, OSError) else str(error)
        raise ArtifactError(f"the code cannot be loaded: {reason}") from None
    except RuntimeError as error:
        # What the system says comes after the names that it was given.
        reason = f"{tempfile.gettempdir()}: {first_line(error).rpartition('library.so: ')[2]}"
        raise ArtifactError(
            f"the code cannot be loaded by way of a temporary file ({reason}); set $TMPDIR to a folder that "
            "is not mounted noexec, such as /dev/shm"
        ) from None


def as_array(value: Any, name: str) -> Any:
    """A numpy array over the memory of anything that DLPack takes; what it does not take is given back.

    InputError for a tensor that is not in this machine's memory, or that numpy cannot hold.
    """
    if isinstance(value, np.ndarray) or not hasattr(value, "__dlpack__"):
        return value
    try:
        # PyTorch gives no memory away that records gradients, and any whose signs are to be turned.
        if hasattr(value, "detach"):
            value = value.detach()
        if hasattr(value, "resolve_neg"):
            value = value.resolve_neg()
        return np.from_dlpack(value)
    except Exception as error:
        kind = f"{type(value).__module__.partition('.')[0]}.{type(value).__name__}"
        raise InputError(
            f"input {name!r}: numpy cannot read this {kind} in place ({first_line(error)}); "
            "move it to the CPU and convert it to a dtype of numpy"
        ) from None


def _is_torch(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "torch"


def _misfit(error: str) -> str | None:
    """What to say of an error of TVM's about extents that the inputs' data decide; None of any other."""
    misfit = _MISFIT.search(error)
    if misfit is not None:
        present, wanted, axis = misfit.groups()
        return f"inputs: dimension {axis} of one is {present}, where the model's extents make it {wanted}"
    lack = _LACK.search(error)
    if lack is not None:
        wanted, present = lack.groups()
        return f"inputs: of their data the model makes a tensor {present}, which it reads as {wanted}"
    return None


def _look(value: Any) -> Any:
    """All of an array that decides whether and how it is taken; of anything else what equals nothing."""
    if type(value) is not np.ndarray:
        return object()
    return value.shape, value.strides, value.dtype, value.flags.num


def _axes_in_memory(spec: TensorSpec) -> tuple[int, ...] | None:
    """Where the dimensions of the model are in memory, outermost first; None where in their own order."""
    order = spec.memory_order
    return None if order == tuple(range(len(order))) else tuple(int(axis) for axis in np.argsort(order))
