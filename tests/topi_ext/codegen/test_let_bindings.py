"""Where variables are bound within expressions."""

import math
from typing import Any

import numpy as np
import pytest
import tvm
from kernel_harness import (
    compile_function,
    host_cpus,
    integers,
    prim_func,
    run_guarded,
    scheduled_by,
    target_for,
)
from tvm import te, tirx, topi
from tvm_ffi import structural_equal, structural_walk

from topi_ext.codegen.let_bindings import flatten_bindings, hide_floats
from topi_ext.compute import transcendental
from topi_ext.ir import nodes_of
from topi_ext.schedule.cpu.loops import LoopNest


def chain(x: te.Tensor, y: te.Tensor) -> te.Tensor:
    """Products of expressions that bind variables, and such an expression bound itself."""
    half = transcendental.sigmoid(transcendental.tanh(topi.multiply(x, x)))
    return topi.add(topi.multiply(half, 3.0), topi.multiply(transcendental.gelu(x), y))


@pytest.mark.parametrize("shape", [(1,), (5,), (16,), (4, 8)])
def test_a_scalar_is_the_same_for_all_lanes(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    data, other = integers(rng, [1] * len(shape)) / np.float32(2), integers(rng, shape)
    tensors = [te.placeholder(array.shape, "float32") for array in (data, other)]
    target = target_for(host_cpus()[-1])
    scheduled = scheduled_by(LoopNest(), prim_func([*tensors, chain(*tensors)]), target).mod["main"]
    gelu = data * (1 + np.vectorize(math.erf)(data / math.sqrt(2))) / 2
    expected = 3 / (1 + np.exp(-np.tanh(data * data))) + gelu * other
    got = run_guarded(compile_function(scheduled, target), [data, other], expected.shape, "float32")
    np.testing.assert_allclose(got, expected, rtol=1e-5)


@pytest.mark.parametrize("count", [1, 5, 16])
def test_floats_of_truth_values_are_bound(count: int) -> None:
    data = integers(np.random.default_rng(0), (count,))
    tensor = te.placeholder(data.shape, "float32")
    ones = te.compute(data.shape, lambda i: (tensor[i] > 0).astype("float32"))
    target = target_for(host_cpus()[-1])
    func = prim_func([tensor, transcendental.tanh(ones)])
    scheduled = scheduled_by(LoopNest(), func, target).mod["main"]
    got = run_guarded(compile_function(scheduled, target), [data], data.shape, "float32")
    np.testing.assert_allclose(got, np.tanh((data > 0).astype("float32")), rtol=1e-5)


def test_what_is_bound_binds_nothing() -> None:
    tensors = [te.placeholder((1,), "float32"), te.placeholder((16,), "float32")]
    before = scheduled_by(LoopNest(), prim_func([*tensors, chain(*tensors)]), target_for(None)).mod
    bound = nodes_of(flatten_bindings()(before)["main"].body, tirx.Let)
    assert bound
    inside: list[tirx.Let] = []
    for binding in bound:
        structural_walk(binding.value, (tirx.Let, inside.append))
    assert not inside


def test_what_is_read_on_a_condition_stays_there() -> None:
    data = te.placeholder((8,), "float32", "data")
    held = tirx.Var("held", "float32")

    def element(place: tirx.Var) -> Any:
        guarded = tirx.Let(held, data(place - 1), held * held)
        return tirx.if_then_else(place > 0, guarded, tirx.const(0, "float32"))

    module = tvm.IRModule({"main": prim_func([data, te.compute((8,), element)])})
    assert structural_equal(flatten_bindings()(module), module)


def test_what_is_bound_to_floats_is_loaded() -> None:
    """TVM's analysis of what is bound ends in an error where a float is made of bounded whole numbers."""
    source = tirx.decl_buffer((8,), "float32", "source")
    result = tirx.decl_buffer((8,), "float32", "result")
    place, scale, read = (
        tirx.Var(name, dtype) for name, dtype in (("i", "int64"), ("s", "float32"), ("r", "float32"))
    )
    body = tirx.SeqStmt(
        [
            tirx.Bind(scale, tirx.Cast("float32", place) * tirx.const(0.5, "float32")),
            tirx.Bind(read, tirx.BufferLoad(source, [place])),
            tirx.BufferStore(result, scale * scale + read, [place]),
        ]
    )
    loop = tirx.For(place, tirx.const(0, "int64"), tirx.const(8, "int64"), tirx.ForKind.SERIAL, body)
    module = hide_floats()(tvm.IRModule({"main": tirx.PrimFunc([source, result], loop)}))
    bound: list[Any] = []
    structural_walk(module["main"].body, (tirx.Bind, lambda one: bound.append(one.value.source.name)))
    assert bound == ["s", "source"]


def test_what_a_store_binds_is_bound_before_it() -> None:
    data, result = (tirx.decl_buffer((1,), "float32", name) for name in ("data", "result"))
    half, here = tirx.Var("half", "float32"), tirx.const(0, "int32")
    value = tirx.Let(half, tirx.BufferLoad(data, [here]) * tirx.const(0.5, "float32"), half * half)
    module = tvm.IRModule({"main": tirx.PrimFunc([data, result], tirx.BufferStore(result, value, [here]))})
    body = hide_floats()(module)["main"].body
    assert not nodes_of(body, tirx.Let)
    assert [type(statement) for statement in body.seq] == [
        tirx.AllocBuffer,
        tirx.BufferStore,
        tirx.Bind,
        tirx.BufferStore,
    ]
