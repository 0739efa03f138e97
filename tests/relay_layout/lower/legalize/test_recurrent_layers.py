"""Recurrent layers as the loop that processors have, and as steps for what has none."""

from collections import Counter
from functools import partial
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

from relay_layout.errors import TargetError
from relay_layout.ir import bindings_of, operator_name
from relay_layout.lower.legalize.recurrent_layers import unroll_layers
from relay_layout.recurrent import RECURRENT, optional_of, recurrence_of, recurrent
from topi_ext.compute.recurrent.activations import SIGMOID, TANH, Activation
from topi_ext.compute.recurrent.recurrence import Recurrence

on_processor = partial(unroll_layers, target="x86-64-v3", has_loop=True)
on_gpu = partial(unroll_layers, target="cuda-sm_90", has_loop=False)


def layer(
    length: Any, recurrence: Recurrence, *, batch: Any = 2, dtype: str = "float32", hidden: int = 4
) -> tvm.IRModule:
    """A layer with first states and lengths; its sequence and last hidden state are returned."""
    directions, width = len(recurrence.backwards), recurrence.gates * hidden
    projected = relax.Var("projected", relax.TensorType([length, batch, directions * width], dtype))
    state = relax.Var("state", relax.TensorType([directions, batch, hidden], dtype))
    lengths = relax.Var("lengths", relax.TensorType([batch], "int32"))
    weight = relax.const(np.zeros((directions, hidden, width)), dtype)
    builder = relax.BlockBuilder()
    with builder.function("main", [projected, state, lengths]):
        with builder.dataflow():
            call = recurrent(recurrence, projected, weight, hidden=state, lengths=lengths, cell=None)
            found = builder.emit(call)
            fields = [builder.emit(relax.TupleGetItem(found, place)) for place in (0, 1)]
            result = builder.emit_output(relax.Tuple(fields))
        builder.emit_func_output(result)
    return builder.finalize()


def operators(module: tvm.IRModule) -> Counter[str]:
    return Counter(operator_name(binding.value) for binding in bindings_of(module["main"]))


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_a_processor_keeps_the_loop(kind: Any) -> None:
    for length in (200, tirx.Var("length", "int64")):
        module = layer(length, Recurrence(kind))
        assert on_processor(module) is module


@pytest.mark.parametrize("batch", [2, tirx.Var("batch", "int64")], ids=["batch", "any batch"])
@pytest.mark.parametrize(("kind", "products"), [("LSTM", 1), ("GRU", 2), ("RNN", 1)])
def test_a_gpu_has_steps(kind: Any, products: int, batch: Any) -> None:
    module = layer(5, Recurrence(kind, (False, True)), batch=batch)
    found = on_gpu(module)
    assert RECURRENT not in operators(found)
    assert operators(found)["matmul"] == 2 * 5 * products
    tvm.ir.assert_structural_equal(found["main"].ret_ty, module["main"].ret_ty)


def test_one_step_has_no_loop() -> None:
    found = operators(on_processor(layer(1, Recurrence("LSTM"))))
    assert found["matmul"] == 1 and RECURRENT not in found


def test_the_loop_is_of_float32_alone() -> None:
    found = operators(on_processor(layer(3, Recurrence("RNN"), dtype="float64")))
    assert found["matmul"] == 3


@pytest.mark.parametrize(
    ("unroll", "dtype", "lacking"),
    [
        (on_gpu, "float32", "a kernel for processors alone"),
        (on_processor, "float64", "a kernel for float32 alone, not for float64"),
    ],
)
def test_steps_of_unknown_number_are_refused(unroll: Any, dtype: str, lacking: str) -> None:
    module = layer(tirx.Var("length", "int64"), Recurrence("GRU"), dtype=dtype)
    with pytest.raises(TargetError) as error:
        unroll(module)
    target = unroll.keywords["target"]
    assert str(error.value) == (
        f"target {target}: a recurrent layer over sequences of unknown length has {lacking}; "
        "compile for a processor, or give the model's inputs fixed shapes (--input-shape)"
    )


def test_a_call_says_what_it_computes() -> None:
    forms = (SIGMOID, Activation("affine", 0.5, 0.25), TANH)
    asked = Recurrence("LSTM", (True, False), (forms, forms[::-1]), 0.5, True)
    (binding, *_) = bindings_of(layer(3, asked)["main"])
    assert recurrence_of(binding.value) == asked
    assert list(optional_of(binding.value)) == ["hidden", "lengths"]
    shapes = [[int(extent) for extent in field.shape.values] for field in binding.var.ty.fields]
    assert shapes == [[3, 2, 2, 4], [2, 2, 4], [2, 2, 4]]
