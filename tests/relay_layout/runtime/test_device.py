"""The memory of inputs and outputs, on a device that is not asked to be a GPU."""

import numpy as np
import pytest
import tvm

from relay_layout.errors import ArtifactError
from relay_layout.runtime.device import DeviceMemory, HostMemory, memory_of


def address(tensor: tvm.runtime.Tensor) -> int:
    return int(np.from_dlpack(tensor).ctypes.data)


def aligned(*shape: int) -> np.ndarray:
    return np.from_dlpack(tvm.runtime.empty(shape, "float32"))


def test_kernels_of_a_gpu_read_copies_only() -> None:
    array = aligned(2, 3)
    array[...] = 1
    memory = DeviceMemory(tvm.cpu())
    assert memory.borrowed(array) is None
    tensor = memory.copied("x", array)
    weight = memory.weight(array)
    array[...] = 2
    np.testing.assert_array_equal(memory.fetched(tensor), np.ones((2, 3)))
    np.testing.assert_array_equal(memory.fetched(weight), np.ones((2, 3)))


def test_an_input_of_a_gpu_is_at_one_address_for_each_shape() -> None:
    memory = DeviceMemory(tvm.cpu())
    shapes = [(2, 3), (4, 3), (2, 3)]
    first, other, again = (memory.copied("x", np.full(shape, 1.0, "float32")) for shape in shapes)
    assert address(first) == address(again) != address(other)
    assert again is first
    assert address(memory.copied("y", np.ones((2, 3), "float32"))) != address(first)


def test_a_copy_of_an_array_that_is_not_contiguous() -> None:
    array = np.arange(6, dtype="float32").reshape(2, 3).T
    for memory in (HostMemory(), DeviceMemory(tvm.cpu())):
        np.testing.assert_array_equal(memory.fetched(memory.copied("x", array)), array)


def test_the_host_reads_where_the_caller_has_it() -> None:
    array = aligned(2, 3)
    memory = memory_of({"kind": "llvm"})
    assert address(memory.borrowed(array)) == array.ctypes.data
    assert memory.borrowed(array.reshape(-1)[1:]) is None


@pytest.mark.skipif(tvm.cuda(0).exist, reason="there is a GPU")
def test_a_gpu_that_is_not_there() -> None:
    with pytest.raises(ArtifactError) as raised:
        memory_of({"kind": "cuda", "arch": "sm_80"})
    assert str(raised.value) == "built for a GPU (sm_80), but TVM finds none; install a TVM with CUDA"
