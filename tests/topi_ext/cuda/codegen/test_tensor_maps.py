"""Tensor maps as the host makes them, with a driver that only writes down what it is asked for."""

import ctypes
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from gpu_cases import product_function, workload
from tvm import te, tirx
from tvm.ir import PointerType
from tvm.tirx.script import builder as T

from topi_ext.cuda.codegen import window_maps
from topi_ext.cuda.codegen.tensor_maps import ENCODE_TILED, TiledMap, WindowMap, data_map, weight_map
from topi_ext.cuda.compute.implicit_gemm import padded, partial_products, result_of, rows_as_image
from topi_ext.cuda.gemm_knobs import GemmKnobs
from topi_ext.cuda.multiprocessor import MULTIPROCESSORS
from topi_ext.cuda.schedule.bulk_copies import lies_as_read
from topi_ext.cuda.schedule.implicit_gemm import schedule_product
from topi_ext.errors import CudaError
from topi_ext.schedule.blocks import open_schedule

SM_90 = MULTIPROCESSORS["sm_90"]
WINDOWS = workload(2, (15, 14), (64, 96), (3, 5), (2, 1), (1, 2, 1, 2), (1, 2))


def made_by_the_host(description: TiledMap | WindowMap, shape: tuple[int, ...]) -> tvm.runtime.Tensor:
    """Runs a host function that makes a map of a tensor, which is returned."""
    data = tirx.decl_buffer(shape, description.dtype, "data")
    place = tirx.Var("place", PointerType(tirx.TensorMapType()))
    made = tirx.Evaluate(description.encoded(place, data.data))
    body = tirx.SeqStmt([tirx.Bind(place, T.tvm_stack_alloca("tensormap", 1)), made])
    func = tirx.PrimFunc([data], body).with_attr("global_symbol", "main")
    library = tvm.compile(tvm.IRModule({"main": func}), target="llvm")
    tensor = tvm.runtime.tensor(np.zeros(shape, description.dtype))
    library["main"](tensor)
    return tensor


def test_the_driver_is_asked_for_a_map_of_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def driver(place: Any, dtype: Any, rank: Any, address: Any, *rest: Any) -> int:
        numbers = [list(part) if hasattr(part, "__len__") else part.value for part in rest]
        asked.append((place.value % 64, dtype.value, rank.value, address.value, numbers))
        return 0

    monkeypatch.setattr(window_maps, "_driver", lambda: driver)
    window_maps.provide_window_maps()
    description = data_map(WINDOWS, 64, 32)
    window_maps._encoded.cache_clear()
    tensor = made_by_the_host(description, (2, 15, 14, 64))
    image = [[64, 14, 15, 2], [128, 128 * 14, 128 * 14 * 15]]
    # Columns begin at -2 and end before 14 - 6, where the tenth and last window begins at 7.
    box = [[-2, -1], [-6, -1], 32, 64, [1, 1, 2, 1]]
    no_interleave, rows_of_64_bytes, lines_of_128_bytes, zeros = 0, 2, 2, 0
    fixed = [no_interleave, rows_of_64_bytes, lines_of_128_bytes, zeros]
    float16, rank = 6, 4
    assert asked == [(0, float16, rank, tensor.data_ptr(), [*image, *box, *fixed])]


def test_the_driver_is_asked_once_for_each_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def driver(place: Any, dtype: Any, rank: Any, address: Any, *rest: Any) -> int:
        asked.append(address.value)
        ctypes.memset(place, len(asked), 128)
        return 0

    monkeypatch.setattr(window_maps, "_driver", lambda: driver)
    window_maps._encoded.cache_clear()
    numbers = (64, 14, 15, 2, -2, -1, -6, -1, 1, 2, 32, 64, 2, 2)
    found = []
    for address in (4096, 8192, 4096):
        made = (ctypes.c_uint8 * 128)()
        window_maps.encode_windows(ctypes.addressof(made), "float16", address, *numbers)
        found.append(bytes(made))
    assert asked == [4096, 8192]
    assert found == [bytes([1] * 128), bytes([2] * 128), bytes([1] * 128)]
    window_maps._encoded.cache_clear()


def test_tvms_runtime_is_asked_for_a_map_of_a_matrix() -> None:
    before = tvm_ffi.get_global_func(ENCODE_TILED, allow_missing=True)
    asked: list[Any] = []
    tvm_ffi.register_global_func(ENCODE_TILED, lambda *given: asked.append(given), override=True)
    try:
        made_by_the_host(weight_map(WINDOWS, (128, 960), 64, 32), (1, 128, 960))
    finally:
        tvm_ffi.registry.remove_global_func(ENCODE_TILED)
        if before is not None:
            tvm_ffi.register_global_func(ENCODE_TILED, before)
    (given,) = asked
    assert str(given[1]) == "float16"
    assert [given[2], *given[4:]] == [2, 960, 128, 1920, 32, 64, 1, 1, 0, 2, 2, 0]


def test_what_the_driver_refuses_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_maps, "_driver", lambda: lambda *given: 1)
    numbers = (64, 14, 15, 2, -2, -1, -6, -1, 1, 2, 32, 64, 2, 2)
    problem = r"^cuTensorMapEncodeIm2col of float16 \(64, 14, 15, 2\) fails with 1$"
    with pytest.raises(CudaError, match=problem):
        window_maps.encode_windows(0, "float16", 0, *numbers)


def test_rows_of_pointwise_products_are_a_matrix() -> None:
    work = workload(3, (7, 9), (72, 30), (1, 1), padding=(0,) * 4)
    assert data_map(work, 64, 32) == TiledMap("float16", (72, 3 * 7 * 9), (32, 64))
    assert isinstance(data_map(workload(3, (7, 9), (72, 30), (1, 1)), 64, 32), WindowMap)


BULK = GemmKnobs("wgmma", 64, 64, 32, 4, 1, 2, copies="bulk")


def _product(data: te.Tensor, made: te.Tensor, work: Any) -> tirx.PrimFunc:
    _, columns, depth = padded(work, BULK)
    weight = te.placeholder((1, columns, depth), "float16", "weight")
    sums = partial_products(made, weight, work, BULK)
    found = result_of(sums, work, (work.batch, work.out_height, work.out_width), 1)
    return te.create_prim_func([data, weight, found])


def test_only_data_that_are_gathered_as_they_lie_are_copied_so() -> None:
    """Others are copied by every thread, whatever the knobs say."""
    work = workload(1, (9, 9), (64, 48))
    image = (1, 9, 9, 64)
    narrow, wide = (te.placeholder(image, dtype, "data") for dtype in ("float16", "float32"))
    doubled = te.compute(image, lambda *index: narrow(*index) + narrow(*index), name="doubled")
    plain = product_function(work, BULK)
    functions = {plain: True, _product(wide, wide, work): False, _product(narrow, doubled, work): False}
    for func, lies in functions.items():
        assert lies_as_read(open_schedule(func), work) == lies
        schedule = schedule_product(func, work, BULK, SM_90)
        assert schedule is not None
        assert ("topi_ext_bulk_copy" in schedule.mod["main"].script()) == lies


def test_data_of_any_rank_are_rows() -> None:
    data = te.placeholder((5, 13, 64), "float16", "data")
    work = workload(65, (1, 1), (64, 48), (1, 1), padding=(0,) * 4)
    func = _product(data, rows_as_image(data), work)
    assert lies_as_read(open_schedule(func), work)
