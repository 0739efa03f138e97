"""Tensors, views and shapes that are made once."""

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_layout.ir import bindings_of, operator_name
from relay_layout.lower.memory.shared_views import share_views
from relay_layout.lower.passes import machine_passes, memory_passes
from relay_layout.targets import resolve_target

op = relax.op
Emit = Callable[[relax.BlockBuilder, relax.Var], relax.Expr]


def planned(emit: Emit) -> tvm.IRModule:
    """A function of a tensor of ``rows`` rows of 6, whose memory is planned."""
    rows = tvm.tirx.Var("rows", "int64")
    builder = relax.BlockBuilder()
    data = relax.Var("data", relax.TensorType((rows, 6), "float32"))
    with builder.function("main", [data]):
        with builder.dataflow():
            result = builder.emit_output(emit(builder, data))
        builder.emit_func_output(result)
    passes = [
        relax.transform.LegalizeOps(),
        relax.transform.RewriteDataflowReshape(),
        *memory_passes(resolve_target("native")),
    ]
    with tvm.target.Target("llvm"):
        return tvm.transform.Sequential(passes)(builder.finalize())


def made(module: tvm.IRModule) -> Counter[str]:
    """How often each thing is bound that is no result of a kernel."""
    names = Counter[str]()
    for binding in bindings_of(module["main"]):
        value = binding.value
        names["shape" if isinstance(value, relax.ShapeExpr) else operator_name(value)] += 1
    return names


def chain(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
    for operator in (op.exp, op.negative, op.sin, op.cos, op.tanh, op.abs):
        data = builder.emit(operator(data))
    return data


def views(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
    """Two shapes in turn."""
    rows = data.ty.shape[0]
    for shape in ((rows * 2, 3), (rows, 6)) * 3:
        data = builder.emit(op.sin(builder.emit(op.reshape(data, relax.ShapeExpr(shape)))))
    return data


def test_tensors_that_take_turns_in_a_storage_are_one() -> None:
    module = planned(chain)
    before, after = made(module), made(share_views(module))
    assert before["memory.alloc_tensor"] == 6
    assert after["memory.alloc_tensor"] == after["memory.alloc_storage"] == before["memory.alloc_storage"]


def test_a_shape_is_made_once() -> None:
    module = share_views(planned(chain))
    # That of all tensors, and the size of all storages.
    assert made(module)["shape"] == 2


def test_a_view_of_a_tensor_is_a_tensor_in_its_storage() -> None:
    module = planned(views)
    assert made(module)["reshape"] == 6
    # The first is that of the input.
    assert made(share_views(module))["reshape"] == 1


@pytest.mark.parametrize(("factor", "is_tensor"), [(2, True), (3, False)])
def test_a_view_of_a_size_that_may_be_wrong_stays(factor: int, is_tensor: bool) -> None:
    """For the machine to find out."""
    rows = tvm.tirx.Var("rows", "int64")
    builder = relax.BlockBuilder()
    data = relax.Var("data", relax.TensorType((rows, 6), "float32"))
    with builder.function("main", [data], attrs={"relax.force_pure": True}):
        size, shape = relax.ShapeExpr([rows * 24]), relax.ShapeExpr([rows, 6])
        storage = builder.emit(op.memory.alloc_storage(size, 0, "global", "uint8"))
        tensor = builder.emit(op.memory.alloc_tensor(storage, 0, shape, "float32"))
        builder.emit_func_output(builder.emit(op.reshape(tensor, relax.ShapeExpr([rows * factor, 3]))))
    found = made(share_views(builder.finalize()))
    assert (found["memory.alloc_tensor"], found["reshape"]) == ((2, 0) if is_tensor else (1, 1))


@pytest.mark.parametrize("emit", [chain, views])
def test_results_are_the_same(emit: Emit) -> None:
    passes = tvm.transform.Sequential(machine_passes())
    machine = relax.VirtualMachine(relax.build(planned(emit), "llvm", relax_pipeline=passes), tvm.cpu())
    data = np.random.default_rng(0).standard_normal((5, 6), dtype="float32") / 8
    expected = data
    if emit is chain:
        expected = np.abs(np.tanh(np.cos(np.sin(-np.exp(data)))))
    else:
        for _ in range(6):
            expected = np.sin(expected)
    for rows in (5, 2):
        output = machine["main"](tvm.runtime.tensor(data[:rows]))
        np.testing.assert_allclose(output.numpy(), expected[:rows], rtol=1e-5)
