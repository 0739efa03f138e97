"""TVM's virtual machine, which calls the kernels of a loaded library one after the other."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tvm_ffi

POOLED_ALLOCATOR = 2
"""TVM's number of the allocator that keeps memory for the next call, every size that it ever gave out."""


@contextmanager
def memory_errors() -> Iterator[None]:
    """MemoryError where TVM's allocator gets no memory, which is a RuntimeError of its own."""
    try:
        yield
    except RuntimeError as error:
        if is_of_memory(error):
            raise MemoryError(NO_MEMORY) from None
        raise


def is_of_memory(error: Exception) -> bool:
    """Whether TVM's allocator got no memory."""
    return "bad_alloc" in str(error)


NO_MEMORY = "the network's intermediate results and outputs need more than there is; give smaller inputs"


class Machine:
    """The functions of a loaded library, to be run on ``devices``, of which the last is a CPU."""

    def __init__(self, library: Any, devices: Sequence[Any]) -> None:
        self._module = library["vm_load_executable"]()
        numbers = [
            number
            for device in devices
            for number in (device.dlpack_device_type(), device.index, POOLED_ALLOCATOR)
        ]
        self._module["vm_initialization"](*numbers)

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """A function by name."""
        function: Callable[..., Any] = self._module[name]
        return function

    def bind(self, name: str, bound: str, *arguments: Any) -> Callable[..., Any]:
        """The function ``name`` with ``arguments`` as its last ones, under the name ``bound`` from now on."""
        self._module["save_function"](name, bound, int(True), *arguments)
        return self[bound]

    @staticmethod
    def release() -> None:
        """Give back the memory that is kept for the next calls of all machines."""
        tvm_ffi.get_global_func("vm.builtin.memory_manager.clear")()

    def observe(self, observer: Callable[..., int]) -> None:
        """Have ``observer`` called before and after every call.

        It is given the function, its name, whether this is before, the result, and the arguments. What it
        returns before is 0 for the call to be made.
        """
        self._module["set_instrument"](observer)
