"""What computes a network on this machine: TVM's runtime alone, and the memory of inputs and outputs."""

import gc
import itertools
import json
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm_ffi

import relay_layout
from relay_layout.errors import RelayLayoutError
from relay_layout.runtime import cpu
from relay_layout.runtime.cpu import Cpu, Results, aligned, load_runtime
from tests.relax_modules import main_of


def address(tensor: Any) -> int:
    return int(np.from_dlpack(tensor).ctypes.data)


def test_a_copy_of_an_array_that_is_not_contiguous() -> None:
    array = np.arange(6, dtype="float32").reshape(2, 3).T
    here = Cpu()
    np.testing.assert_array_equal(here.fetched(here.copied("x", array)), array)


def test_inputs_are_read_where_the_caller_has_them() -> None:
    array = aligned((2, 3), "float32")
    here = Cpu()
    shifted = array.reshape(-1)[1:]
    assert address(here.borrowed(array)) == array.ctypes.data
    assert address(here.borrowed(shifted)) == shifted.ctypes.data


def test_numbers_at_odd_addresses_are_not_read_there() -> None:
    room = np.zeros(25, "uint8")
    odd = room[1:] if room.ctypes.data % 4 == 0 else room[:-1]
    assert Cpu().borrowed(odd.view("float32")) is None


def test_outputs_can_be_read_where_they_lie() -> None:
    here = Cpu()
    output = here.fetched(here.copied("x", np.arange(5, dtype="float32")))
    assert address(here.borrowed(output)) == output.ctypes.data


@pytest.mark.parametrize("shape", [(2, 3), (), (0, 3)])
@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "float16", "int64"])
def test_outputs_are_the_arrays_that_they_were_computed_in(shape: tuple[int, ...], dtype: str) -> None:
    here = Cpu()
    kept = here.copied("x", np.ones(shape, dtype))
    results = here.results([kept])()
    (tensor,), (array,) = results.tensors, results.arrays
    assert array.shape == shape and array.dtype == dtype
    assert not array.size or address(tensor) == array.ctypes.data != address(kept)


@pytest.mark.parametrize("shape", [(), (0, 3), (7,), (2, 3, 5)])
@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "float16", "int64"])
def test_aligned_memory(shape: tuple[int, ...], dtype: str) -> None:
    array = aligned(shape, dtype)
    assert array.shape == shape and array.dtype == dtype and array.flags.c_contiguous
    assert array.ctypes.data % 64 == 0


def outputs(elements: int) -> Callable[[], np.ndarray]:
    """What computes an output of so many, which are its call's number."""
    here, calls = Cpu(), itertools.count()
    new = here.results([tvm_ffi.from_dlpack(np.empty(elements, "float32"))])

    def compute() -> np.ndarray:
        results = new()
        np.from_dlpack(results.tensors[0])[:] = next(calls)
        return results.arrays[0]

    return compute


@pytest.mark.parametrize("elements", [12, 1 << 18])
def test_memory_of_outputs_is_used_again(elements: int) -> None:
    compute = outputs(elements)
    first = compute().ctypes.data
    assert compute().ctypes.data == first


def test_what_a_caller_says_of_an_output_is_not_said_of_the_next() -> None:
    compute = outputs(12)
    compute().flags.writeable = False
    other = compute()
    other.shape = 3, 4
    assert compute().flags.writeable and compute().shape == (12,)


@pytest.mark.parametrize(
    "held",
    [
        pytest.param(lambda array: array, id="the array"),
        pytest.param(lambda array: array[5:].reshape(-1, 1).view("int32"), id="a view"),
        pytest.param(lambda array: array.T[2:].reshape(2, -1)[1], id="a view of a view"),
        pytest.param(memoryview, id="a buffer"),
        pytest.param(tvm_ffi.from_dlpack, id="a tensor"),
    ],
)
def test_memory_that_the_caller_still_holds_is_not(held: Callable[[np.ndarray], Any]) -> None:
    compute = outputs(12)
    kept = [held(compute()) for _ in range(4)]
    compute()
    for number, each in enumerate(kept):
        values = np.from_dlpack(each) if hasattr(each, "__dlpack__") else np.asarray(each)
        assert (values.view("float32") == number).all()


def test_memory_of_large_outputs_of_open_size_is_used_again() -> None:
    here, large = Cpu(), tvm_ffi.from_dlpack(np.zeros(1 << 18, "float32"))
    first = here.fetched(large).ctypes.data
    assert here.fetched(large).ctypes.data == first


@pytest.mark.parametrize("shape", [(5,), (2, 3), (0, 3)])
@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "float16", "int64"])
def test_outputs_of_open_size_are_the_memory_that_the_machine_made(
    shape: tuple[int, ...], dtype: str
) -> None:
    here = Cpu()
    made = tvm_ffi.from_dlpack(np.ones(shape, dtype))
    found = here.fetched(made, here.occupied(Results([], []), [], []))
    assert found.shape == shape and found.dtype == dtype and found.flags.writeable
    assert not found.size or found.ctypes.data == address(made)
    del made
    gc.collect()
    assert (found == 1).all()


def test_weights_that_vectors_cannot_read_are_copied() -> None:
    ready = aligned((8, 8), "float32")
    ready[:] = 1
    read_only = np.frombuffer(bytes(ready), "float32").reshape(8, 8)
    for array, is_shared in ((ready, True), (read_only, False), (ready[1:, :7], False), (ready[:, 1], False)):
        tensor = np.from_dlpack(Cpu().weight(array))
        np.testing.assert_array_equal(tensor, array)
        assert np.may_share_memory(tensor, array) == is_shared


def test_outputs_of_open_size_that_lie_elsewhere_are_copied() -> None:
    here = Cpu()
    given, weight, held = (aligned((9,), "float32") for _ in range(3))
    here.weight(weight)
    here.hold([tvm_ffi.from_dlpack(held)])
    occupied = here.occupied(Results([], []), [tvm_ffi.from_dlpack(given)], [4])
    for array in (given, weight, held):
        found = here.fetched(tvm_ffi.from_dlpack(array[3:7]), occupied)
        assert not np.may_share_memory(found, array)
        np.testing.assert_array_equal(found, array[3:7])


def test_outputs_of_open_size_that_lie_in_another_are_copied() -> None:
    here, made = Cpu(), np.arange(9, dtype="float32")
    occupied = here.occupied(Results([], []), [], [])
    one, other = (here.fetched(tvm_ffi.from_dlpack(part), occupied) for part in (made, made[2:5]))
    assert not np.may_share_memory(one, other)


def test_memory_of_two_outputs_at_most_is_kept() -> None:
    compute = outputs(12)
    held = [compute() for _ in range(5)]
    owners = [weakref.ref(array.base) for array in held]
    del held
    assert sum(owner() is not None for owner in owners) == 2


def test_memory_that_there_is_not_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ignored: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)
    with pytest.raises(MemoryError):
        aligned((1 << 60,), "uint8")
    assert not ignored


@pytest.mark.parametrize("shape", [(), (0, 3), (7,)])
def test_weights_of_any_size(shape: tuple[int, ...]) -> None:
    weight = aligned(shape, "float32")
    weight[...] = 3
    weight.flags.writeable = False
    np.testing.assert_array_equal(np.from_dlpack(Cpu().weight(weight)), weight)


RUN = """
import json, sys
import numpy as np
import relay_layout

session = relay_layout.load(sys.argv[1])
image = np.load(sys.argv[2])
before = session.run({"x": image})["output"]
told = {"compiler": "libtvm_compiler" in open("/proc/self/maps").read()}
told |= {name: name in sys.modules for name in ("tvm", "numpy.ma")}
import tvm

told["same"] = bool(np.array_equal(before, session.run({"x": image})["output"]))
told["tensor"] = type(tvm.runtime.tensor(image)).__module__
np.save(sys.argv[2], before)
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def sorting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network that calls one of TVM's own functions, as well as kernels."""
    import tvm
    from tvm import relax

    x = relax.Var("x", relax.TensorType((1, 4, 8, 8), "float32"))
    weight = relax.const(np.random.default_rng(0).standard_normal((6, 4, 3, 3), dtype="float32"))
    with main_of(x) as builder:
        convolution = builder.emit(relax.op.nn.conv2d(x, weight, padding=1))
        builder.result = relax.op.sort(convolution, axis=1)
    module: tvm.IRModule = builder.finalize()
    path = tmp_path_factory.mktemp("sorting") / "network.rla"
    relay_layout.compile(module).save(path)
    return path


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux what is loaded")
def test_a_network_runs_without_the_compiler(sorting: Path, tmp_path: Path) -> None:
    """And without what takes long to import and is not needed; the compiler can be imported after it."""
    image = np.random.default_rng(1).standard_normal((1, 4, 8, 8), dtype="float32")
    np.save(tmp_path / "x.npy", image)
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(sorting), str(tmp_path / "x.npy")],
        capture_output=True,
        text=True,
        check=True,
    )
    told = json.loads(done.stdout)
    assert told == {
        "compiler": False,
        "tvm": False,
        "numpy.ma": False,
        "same": True,
        "tensor": "tvm.runtime._tensor",
    }
    expected = relay_layout.load(sorting).run({"x": image})["output"]
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), expected)
    assert np.all(np.diff(expected, axis=1) >= 0)


def test_tvm_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "find_spec", lambda name: None)
    load_runtime.cache_clear()
    with pytest.raises(RelayLayoutError) as raised:
        load_runtime()
    assert str(raised.value) == "TVM is not installed; pip install apache-tvm"


@pytest.mark.parametrize("count", [1, 4096])
def test_outputs_begin_with_a_cache_line(count: int) -> None:
    kept = tvm_ffi.from_dlpack(np.zeros(count, "float32"))
    results = [Cpu().results([kept])() for _ in range(8)]
    assert all(address(result.tensors[0]) % 64 == 0 for result in results)
