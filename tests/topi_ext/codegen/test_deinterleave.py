"""Loads of every second element, made of two that lie together."""

from typing import Any

import numpy as np
import pytest
import tvm
from kernel_harness import check_loops
from tvm import te, tirx
from tvm.ir import TensorLoad
from tvm_ffi import structural_walk

from topi_ext.codegen.deinterleave import deinterleave_loads

A, OUT = tirx.decl_buffer((32,), "float32", "a"), tirx.decl_buffer((32,), "float32", "out")


def rewritten(stride: int, lanes: int) -> tuple[Any, list[Any]]:
    """What is stored of ``lanes`` elements from the third on, and its loads, after the pass."""
    value = tirx.BufferLoad(A, [tirx.Ramp(2, stride, lanes)])
    func = tirx.PrimFunc([A, OUT], tirx.BufferStore(OUT, value, [tirx.Ramp(0, 1, lanes)]))
    stored = deinterleave_loads()(tvm.IRModule({"main": func}))["main"].body.value
    loads: list[Any] = []
    structural_walk(stored, (TensorLoad, loads.append))
    return stored, loads


@pytest.mark.parametrize("lanes", [4, 7, 8, 15])
def test_two_loads_have_every_second_element_and_none_beside(lanes: int) -> None:
    stored, loads = rewritten(2, lanes)
    assert all(int(load.indices[0].stride) == 1 for load in loads)
    read = np.concatenate([int(load.indices[0].base) + np.arange(lanes) for load in loads])
    np.testing.assert_array_equal(read[[int(place) for place in stored.indices]], 2 + 2 * np.arange(lanes))
    assert (read.min(), read.max()) == (2, 2 * lanes)


@pytest.mark.parametrize(("stride", "lanes"), [(1, 8), (3, 8), (-2, 2), (2, 2)])
def test_others_stay_one_load(stride: int, lanes: int) -> None:
    stored, loads = rewritten(stride, lanes)
    assert len(loads) == 1
    assert stored.same_as(loads[0])


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "uint8", "int64", "bool"])
def test_numbers_of_every_width(dtype: str) -> None:
    data = (np.random.default_rng(0).random((3, 64)) * 2).astype(dtype)

    def halves(x: te.Tensor) -> te.Tensor:
        return te.compute((3, 32), lambda row, place: x[row, 2 * place + 1])

    check_loops([data], halves, data[:, 1::2], False)
