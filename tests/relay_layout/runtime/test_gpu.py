"""The memory of inputs and outputs of a GPU, on a device that is not asked to be one."""

from pathlib import Path

import numpy as np
import pytest
import tvm
import tvm_ffi

import relay_layout
from relay_layout.artifact import read_artifact
from relay_layout.errors import ArtifactError
from relay_layout.runtime.cpu import Results, aligned
from relay_layout.runtime.gpu import Gpu, first_gpu
from topi_ext.cuda.codegen.window_maps import ENCODE_WINDOWS


def address(tensor: tvm.runtime.Tensor) -> int:
    return int(np.from_dlpack(tensor).ctypes.data)


def test_kernels_of_a_gpu_read_copies_only() -> None:
    array = aligned((2, 3), "float32")
    array[...] = 1
    gpu = Gpu(tvm.cpu())
    assert gpu.borrowed(array) is None
    tensor = gpu.copied("x", array)
    weight = gpu.weight(array)
    array[...] = 2
    np.testing.assert_array_equal(gpu.fetched(tensor, Results([], {})), np.ones((2, 3)))
    np.testing.assert_array_equal(gpu.fetched(weight, Results([], {})), np.ones((2, 3)))


def test_an_input_of_a_gpu_is_at_one_address_for_each_shape() -> None:
    gpu = Gpu(tvm.cpu())
    shapes = [(2, 3), (4, 3), (2, 3)]
    first, other, again = (gpu.copied("x", np.full(shape, 1.0, "float32")) for shape in shapes)
    assert address(first) == address(again) != address(other)
    assert again is first
    assert address(gpu.copied("y", np.ones((2, 3), "float32"))) != address(first)


def test_a_copy_of_an_array_that_is_not_contiguous() -> None:
    array = np.arange(6, dtype="float32").reshape(2, 3).T
    gpu = Gpu(tvm.cpu())
    np.testing.assert_array_equal(gpu.fetched(gpu.copied("x", array), Results([], {})), array)


def test_outputs_of_a_gpu_stay_at_one_address() -> None:
    gpu = Gpu(tvm.cpu())
    kept = gpu.copied("x", np.ones((2, 3), "float32"))
    assert gpu.results([kept])().tensors == [kept]
    assert not np.may_share_memory(gpu.fetched(kept, gpu.results([kept])()), np.from_dlpack(kept))


def test_kernels_of_a_library_find_what_makes_maps_of_windows(tmp_path: Path) -> None:
    relay_layout.compile("squeezenet1_1", input_shapes={"input": (1, 3, 64, 64)}).save(tmp_path / "n.rla")
    (tmp_path / "n.so").write_bytes(read_artifact(tmp_path / "n.rla").contents[0].library)
    if tvm_ffi.get_global_func(ENCODE_WINDOWS, allow_missing=True) is not None:
        tvm_ffi.registry.remove_global_func(ENCODE_WINDOWS)
    Gpu(tvm.cpu()).load(tmp_path / "n.so")
    assert tvm_ffi.get_global_func(ENCODE_WINDOWS, allow_missing=True) is not None


@pytest.mark.skipif(tvm.cuda(0).exist, reason="there is a GPU")
def test_a_gpu_that_is_not_there() -> None:
    with pytest.raises(ArtifactError) as raised:
        first_gpu("sm_80")
    assert str(raised.value) == "built for a GPU (sm_80), but TVM finds none; install a TVM with CUDA"
