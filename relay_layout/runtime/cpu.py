"""Networks that this machine's processor computes, by TVM's runtime without its compiler.

``import tvm`` loads LLVM and the classes of every node, which takes most of a second and 200 MB, and which no
kernel calls. The runtime is a library of its own beside the compiler's; a program that imports :mod:`tvm`
before or after this gets the same one.
"""

import math
import os
import sys
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tvm_ffi
from tvm_ffi.libinfo import load_lib_ctypes

from relay_layout.errors import RelayLayoutError
from relay_layout.runtime.places import Places, place_of

_LIBRARIES = "tvm_runtime", "tvm_runtime_extra"
"""TVM's libraries: the virtual machine, and functions that it may call, such as sorts."""

_LINE_BYTES = 64
"""Vectors that begin with a cache line are read the fastest."""

_KNOWN_SHAPES = 8
"""Shapes of outputs of open size for which memory is kept."""

_KEPT = 2
"""Memories kept for an output: a caller may hold the last one while the next is computed."""


@cache
def load_runtime() -> None:
    """Load TVM's runtime into this process; RelayLayoutError where it is not installed."""
    folders = _library_folders()
    for name in _LIBRARIES:
        load_lib_ctypes("apache-tvm", name, "RTLD_GLOBAL", extra_lib_paths=folders)


def runtime_libraries() -> list[Path]:
    """The files of TVM's runtime; RelayLayoutError where it is not installed."""
    candidates = [[folder / f"lib{name}.so" for folder in _library_folders()] for name in _LIBRARIES]
    found = [next(filter(Path.is_file, paths), None) for paths in candidates]
    if None in found:
        raise RelayLayoutError("TVM's runtime is not installed as shared libraries; pip install apache-tvm")
    return [path for path in found if path is not None]


def _library_folders() -> list[Path]:
    """Those of an installed package, then those of a source tree, as TVM itself looks for them."""
    found = find_spec("tvm")
    package = Path(found.origin).parent if found and found.origin else None
    if package is None:
        raise RelayLayoutError("TVM is not installed; pip install apache-tvm")
    named = os.environ.get("TVM_LIBRARY_PATH")
    return [*([Path(named)] if named else []), package / "lib", package.parents[1] / "build" / "lib"]


class Results(NamedTuple):
    """Memory that one call computes outputs in: tensors, and for each the array of it that a caller gets."""

    tensors: list[Any]
    arrays: list[np.ndarray]


class Cpu:
    """The processor and its memory: arrays of the caller are read where they lie."""

    kept_for = 8
    """Calls after which memory that is kept for the next one is given back, which costs 2% of a call."""

    def __init__(self) -> None:
        load_runtime()
        self.devices = (tvm_ffi.device("cpu", 0),)
        self._buffers: dict[str, tuple[Any, np.ndarray]] = {}
        self._room = lru_cache(maxsize=_KNOWN_SHAPES)(_Room.of)
        self._held: list[range] = []
        self._of_all_calls = Places()

    def load(self, library: Path) -> Any:
        """The module of a shared library, which is unloaded with the last reference to it."""
        return tvm_ffi.load_module(str(library), keep_module_alive=False)

    def weight(self, array: np.ndarray) -> Any:
        """A tensor over mapped weights; the mapping is private, so the file cannot change.

        Weights that lie elsewhere are copied, unless vectors may be read there.
        """
        if array.size == 0:
            return tensor_over(aligned(array.shape, array.dtype))
        tensor = tensor_over(_readable(array))
        self._held.append(place_of(tensor))
        return tensor

    def hold(self, tensors: Sequence[Any]) -> None:
        """Note tensors that are not for one call alone, as weights are not either."""
        self._held += map(place_of, tensors)
        self._of_all_calls = Places(self._held)

    def borrowed(self, array: np.ndarray) -> Any:
        """A tensor over memory of the caller's; None where DLPack does not give it away.

        Numbers of several bytes must begin at multiples of their size.
        """
        if not array.flags.aligned or not array.flags.writeable or array.size == 0:
            return None
        return tensor_over(array)

    def copied(self, name: str, array: np.ndarray) -> Any:
        """A copy of an input, at the same address as the copy before if that had the same shape."""
        known = self._buffers.get(name)
        if known is None or known[1].shape != array.shape:
            memory = aligned(array.shape, array.dtype)
            known = self._buffers[name] = tensor_over(memory), memory
        np.copyto(known[1], array)
        return known[0]

    def results(self, kept: Sequence[Any]) -> Callable[[], Results]:
        """What gives new memory of the shapes of the tensors that a network keeps for its outputs."""
        rooms = [_Room.of(tensor.shape, str(tensor.dtype)) for tensor in kept]

        def new() -> Results:
            memories = [room.memory() for room in rooms]
            return Results([memory.tensor for memory in memories], [memory.array() for memory in memories])

        return new

    def occupied(self, results: Results, inputs: Sequence[Any], item_bytes: Sequence[int]) -> Places:
        """The memory of one call that no output of its may share that is not computed in ``results``.

        ``item_bytes`` are those of an element of each input.
        """
        return Places([*map(place_of, results.tensors), *map(place_of, inputs, item_bytes)])

    def fetched(self, tensor: Any, occupied: Places | None = None) -> np.ndarray:
        """An output that is not computed in results, as an array of the caller's own, which another network
        may read where it lies.

        One whose shape is open was computed in memory of this call, and is that unless anything else lies
        there too: inputs and outputs in what is ``occupied``, to which it is added. Any other is a copy.
        """
        found = np.from_dlpack(tensor)
        if occupied is not None:
            place = place_of(tensor, found.itemsize)
            if not self._of_all_calls.meet(place) and not occupied.meet(place):
                occupied.add(place)
                return found if found.flags.writeable else np.asarray(_Made(tensor, found))
        array = self._room(found.shape, found.dtype).memory().array()
        np.copyto(array, found)
        return array


class _Made:
    """Memory of an array that the machine has made for one call, which ends with the array.

    numpy 2.0 only reads what it has from DLPack.
    """

    def __init__(self, tensor: Any, array: np.ndarray) -> None:
        self._tensor = tensor
        known = array.__array_interface__
        self.__array_interface__ = {**known, "data": (known["data"][0], False)}


class _Memory:
    """Memory of one output, which begins with a cache line: a tensor, and arrays for callers.

    It is free as soon as nothing that a caller has refers to it. Any view of an array refers to the array
    that owns the memory, as numpy makes it so, so that references to that are counted.
    """

    __slots__ = "_array", "_idle", "_owner", "tensor"

    def __init__(self, room: "_Room") -> None:
        self._owner = np.empty(room.size, np.uint8)
        self._array = room.within(self._owner)
        self.tensor = tensor_over(self._array)
        self._idle = self._references()

    def _references(self) -> int:
        return sys.getrefcount(self._owner)

    def is_free(self) -> bool:
        """Whether the next call may compute there."""
        return self._references() == self._idle

    def array(self) -> np.ndarray:
        """An array of a caller's own."""
        return self._array[...]


class _Room(NamedTuple):
    """What is known of arrays before their memory is, and memory of those before."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...]
    size: int
    kept: list[_Memory]

    @classmethod
    def of(cls, shape: Sequence[int], dtype: Any) -> "_Room":
        kind = np.dtype(dtype)
        # Of an array without elements numpy makes other strides, which TVM does not take.
        strides = tuple(math.prod(shape[axis + 1 :]) * kind.itemsize for axis in range(len(shape)))
        return cls(tuple(shape), kind, strides, math.prod(shape) * kind.itemsize + _LINE_BYTES, [])

    def memory(self) -> _Memory:
        """Memory of an output that its caller has given up, else new memory: each page of the system's would
        be filled with zeros first, which takes as long as a fast kernel takes to compute it.
        """
        for known in self.kept:
            if known.is_free():
                return known
        made = _Memory(self)
        self.kept[_KEPT - 1 :] = []
        self.kept.insert(0, made)
        return made

    def within(self, owner: np.ndarray) -> np.ndarray:
        """An array in ``size`` bytes, which begins with a cache line."""
        # numpy's own ways to tell an address take as long as a small network.
        offset = -tvm_ffi.from_dlpack(owner).data_ptr() % _LINE_BYTES
        return np.ndarray(self.shape, self.dtype, owner, offset, self.strides)


def _readable(array: np.ndarray) -> np.ndarray:
    """The array if it begins with a cache line and DLPack gives it away, else a copy of it."""
    if array.ctypes.data % _LINE_BYTES == 0 and array.flags.c_contiguous:
        try:
            array.flags.writeable = True
            return array
        except ValueError:
            pass
    copy = aligned(array.shape, array.dtype)
    np.copyto(copy, array)
    return copy


def aligned(shape: Sequence[int], dtype: Any) -> np.ndarray:
    """An array without values, whose memory begins with a cache line."""
    room = _Room.of(shape, dtype)
    return room.within(np.empty(room.size, np.uint8))


def tensor_over(array: np.ndarray) -> Any:
    """A tensor over the memory of an array, which is contiguous."""
    return tvm_ffi.from_dlpack(array, require_contiguous=True)
