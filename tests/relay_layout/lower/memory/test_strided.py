"""Kernels of tensors in the rows of longer ones."""

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te, tirx, topi
from tvm.script import tirx as T

from relay_layout.lower.memory.strided import Rows, pitched, pitched_axis
from relay_layout.targets import resolve_target
from topi_ext.codegen.build import compile_kernel
from topi_ext.ir import nodes_of
from topi_ext.schedule.cpu.loops import LoopNest

TARGET = resolve_target("native", threads=2)
SHAPE = (2, 5, 13)
GUARD = 64


def kernel_of(shape: tuple[Any, ...]) -> tirx.PrimFunc:
    data = te.placeholder(shape, "float32", name="data")
    function = te.create_prim_func([data, topi.tanh(topi.add(data, 1.0))])
    scheduled = LoopNest().schedule(function, TARGET.processor)
    assert scheduled is not None
    return scheduled.mod["main"]


def tensor_of(elements: int, shape: tuple[int, ...]) -> tuple[np.ndarray, Any]:
    """Elements of which none has been written, and a tensor at the begin of them."""
    memory = np.full(elements + GUARD, np.float32(7.0))
    memory = memory[-memory.ctypes.data // 4 % 16 :][:elements]
    return memory, tvm.runtime.from_dlpack(memory[: int(np.prod(shape))].reshape(shape))


@pytest.mark.parametrize("batch", [2, "n"])
@pytest.mark.parametrize(
    "rows", [Rows(13, 13, 5), Rows(13, 20, 0), Rows(13, 31, 7), Rows(65, 91, 3)], ids=str
)
def test_a_kernel_reads_and_writes_its_part_alone(rows: Rows, batch: int | str) -> None:
    images = tirx.Var(batch, "int64") if isinstance(batch, str) else batch
    function = pitched(kernel_of((images, *SHAPE[1:])), 0, rows)
    both = None if function is None else pitched(function, 1, rows)
    assert both is not None
    count = int(np.prod(SHAPE)) // rows.run
    memory, source = tensor_of(count * rows.pitch + GUARD, SHAPE)
    written, result = tensor_of(count * rows.pitch + GUARD, SHAPE)
    memory[:] = np.random.default_rng(0).standard_normal(len(memory))
    compile_kernel(both, TARGET.tvm_target)["main"](source, result)
    places = (np.arange(count)[:, None] * rows.pitch + np.arange(rows.run) + rows.shift).ravel()
    np.testing.assert_allclose(written[places], np.tanh(memory[places] + 1.0), rtol=1e-5)
    assert (np.delete(written, places) == 7.0).all()


def test_a_kernel_of_joined_axes_reads_and_writes_its_part_alone() -> None:
    """It has views of its tensors, whose rows are channels of joined rows and columns."""
    shape, rows = (2, 3, 5, 7), Rows(105, 140, 3)
    data, scale = te.placeholder(shape, "float32", name="data"), te.placeholder((3, 1, 1), "float32", "scale")
    scheduled = LoopNest().schedule(
        te.create_prim_func([data, scale, topi.multiply(data, scale)]), TARGET.processor
    )
    assert scheduled is not None
    joined = scheduled.mod["main"]
    assert nodes_of(joined.body, tirx.DeclBuffer)
    function = pitched(joined, 0, rows)
    both = None if function is None else pitched(function, 2, rows)
    assert both is not None
    memory, source = tensor_of(2 * rows.pitch + GUARD, shape)
    written, result = tensor_of(2 * rows.pitch + GUARD, shape)
    memory[:] = np.random.default_rng(0).standard_normal(len(memory))
    factors = np.arange(1, 4, dtype="float32").reshape(3, 1, 1)
    compile_kernel(both, TARGET.tvm_target)["main"](source, tvm.runtime.tensor(factors), result)
    places = (np.arange(2)[:, None] * rows.pitch + np.arange(rows.run) + rows.shift).ravel()
    expected = memory[places].reshape(shape) * factors
    np.testing.assert_allclose(written[places], expected.ravel(), rtol=1e-6)
    assert (np.delete(written, places) == 7.0).all()


@pytest.mark.parametrize(
    ("shape", "run", "pitch", "found"),
    [
        ((2, 3, 4, 5), 5, 8, (3, 8)),
        ((2, 3, 4, 5), 20, 35, (2, 7)),
        ((1, tirx.Var("n", "int64"), 1, 5), 5, 8, (3, 8)),
        ((2, 5, 1, 1), 5, 8, (1, 8)),
        # Seven rows and a half, rows that are no axis, and those of an extent that is not known.
        ((2, 3, 4, 5), 20, 37, None),
        ((2, 3, 4, 5), 10, 20, None),
        ((2, tirx.Var("n", "int64"), 5), 20, 40, None),
    ],
    ids=str,
)
def test_the_axis_of_rows(shape: Any, run: int, pitch: int, found: Any) -> None:
    assert pitched_axis(shape, run, pitch) == found


def test_a_kernel_that_takes_addresses_has_no_rows() -> None:
    @T.prim_func(s_tir=True)
    def function(a: T.Buffer((4, 8), "float32"), b: T.Buffer((4, 8), "float32")) -> None:
        T.func_attr({"tirx.noalias": True})
        with T.sblock("root"):
            T.evaluate(T.call_extern("int32", "copy", T.address_of(b[0, 0]), T.address_of(a[0, 0])))

    for place in (0, 1):
        assert pitched(function, place, Rows(8, 16, 0)) is None
