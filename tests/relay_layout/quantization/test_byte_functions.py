"""Functions of one tensor of bytes, beside ONNX Runtime's: looked up where they are no scaled integers."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from qdq_graphs import QdqGraph, run_both, steps_apart
from tvm import IRModule, relax

from relay_layout.frontend.onnx import from_onnx
from relay_layout.ir import operator_name
from relay_layout.quantization import to_integers
from relay_layout.quantization.byte_functions import EVERY_BYTE, ByteFunction, applied
from relay_layout.quantization.lookup import LOOKUP
from relay_layout.quantization.reals import Quantization
from tests.relax_modules import main_of

STEP = 0.05


def silu(graph: QdqGraph, value: str) -> str:
    """As quantizers leave it: its sigmoid is quantized as well."""
    return graph.node("Mul", [value, graph.requantize(graph.node("Sigmoid", [value]), 1 / 256, 0)])


def halves(graph: QdqGraph, value: str) -> str:
    half = graph.constant(np.array(0.5, "float32"))
    return graph.node("Sub", [graph.node("Mul", [graph.node("Exp", [value]), half]), half])


def turned(graph: QdqGraph, value: str) -> str:
    """As a layer norm's neighbours are exported: rows of channels on the way."""
    rows = graph.node("Reshape", [value, graph.constant(np.array([16, 81]))])
    across = graph.node("Transpose", [graph.node("Sigmoid", [rows])], perm=[1, 0])
    return graph.node("Tanh", [across])


CHAINS: dict[str, Callable[[QdqGraph, str], str]] = {
    "Sigmoid": lambda graph, value: graph.node("Sigmoid", [value]),
    "Tanh": lambda graph, value: graph.node("Tanh", [value]),
    "HardSwish": lambda graph, value: graph.node("HardSwish", [value]),
    "LeakyRelu": lambda graph, value: graph.node("LeakyRelu", [value], alpha=0.3),
    "Erf": lambda graph, value: graph.node("Erf", [value]),
    "SiLU": silu,
    "arithmetic": halves,
    "rearranged": turned,
}


def operators(graph: QdqGraph, output: str) -> list[str]:
    return names(to_integers(from_onnx(graph.model(output))))


def names(module: IRModule) -> list[str]:
    bindings = [binding for block in module["main"].body.blocks for binding in block.bindings]
    return [operator_name(binding.value) for binding in bindings]


def chain(name: str, activations: str) -> tuple[QdqGraph, str]:
    graph = QdqGraph(activations)
    data = graph.input("x", (1, 16, 9, 9))
    value = graph.requantize(graph.convolution(data, (16, 16, 1, 1)), STEP)
    # Signed ones have numbers below zero only where the zero point lets them.
    return graph, graph.requantize(CHAINS[name](graph, value), STEP, 60 if activations == "uint8" else -60)


@pytest.mark.parametrize("activations", ["uint8", "int8"])
@pytest.mark.parametrize("name", CHAINS)
def test_chains_are_onnx_runtimes(name: str, activations: str, tmp_path: Path) -> None:
    graph, output = chain(name, activations)
    (ours,), (reference,), _ = run_both(graph.model(output), tmp_path)
    assert len(np.unique(reference)) > 8
    largest, share = steps_apart(ours, reference, STEP)
    # ONNX Runtime's exponentials are approximations.
    assert largest < 1.5 and share <= 0.02, (largest, share)


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_is_one_table(name: str) -> None:
    found = operators(*chain(name, "uint8"))
    assert found.count(LOOKUP) == 1
    assert not {"sigmoid", "tanh", "erf", "exp"} & set(found)


def test_tables_are_looked_into_before_tensors_are_rearranged() -> None:
    """So that the convolution's kernel does it, whatever rows an exporter has made of its pixels."""
    graph = QdqGraph()
    data = graph.input("x", (1, 16, 9, 9))
    value = graph.requantize(graph.convolution(data, (16, 16, 1, 1)), STEP)
    rows = graph.requantize(graph.node("Reshape", [value, graph.constant(np.array([16, 81]))]), STEP)
    found = operators(graph, graph.requantize(graph.node("Sigmoid", [rows]), STEP))
    assert found.index(LOOKUP) < found.index("reshape")


@pytest.mark.parametrize("dtype", ["int32", "int16", "uint8"])
def test_only_bytes_have_tables(dtype: str) -> None:
    data = relax.Var("x", relax.TensorType((1, 8), dtype))
    scale, zero_point = relax.const(0.1, "float32"), relax.const(0, dtype)
    with main_of(data) as builder:
        value = builder.emit(relax.op.sigmoid(builder.emit(relax.op.dequantize(data, scale, zero_point))))
        point = relax.const(0, "uint8")
        builder.result = relax.op.quantize(value, scale, point, out_dtype="uint8")
    assert (LOOKUP in names(to_integers(builder.finalize()))) == (dtype == "uint8")


def test_functions_of_two_tensors_are_computed() -> None:
    graph = QdqGraph()
    left, right = graph.input("x", (1, 8, 4, 4)), graph.input("y", (1, 8, 4, 4))
    product = graph.node("Mul", [left, graph.node("Sigmoid", [right])])
    assert LOOKUP not in operators(graph, graph.requantize(product, STEP))


def test_scaled_integers_stay_arithmetic() -> None:
    """A bound of integers costs less than a table where no processor permutes bytes."""
    graph = QdqGraph()
    data = graph.input("x", (1, 8, 4, 4))
    assert LOOKUP not in operators(graph, graph.requantize(graph.node("Relu", [data]), STEP))


def test_a_table_of_a_table_reads_the_first_bytes() -> None:
    graph = QdqGraph()
    data = graph.input("x", (1, 8, 4, 4))
    first = graph.requantize(graph.node("Sigmoid", [data]), 1 / 256, 0)
    output = graph.requantize(graph.node("Tanh", [first]), 1 / 256, 0)
    assert operators(graph, output).count(LOOKUP) == 1


@pytest.mark.parametrize("layout", ["none", "NHWC", "NCHW8c"])
def test_tables_follow_every_layout(layout: str, tmp_path: Path) -> None:
    graph = QdqGraph()
    data = graph.input("x", (2, 13, 9, 7))
    value = graph.requantize(graph.convolution(data, (24, 13, 3, 3), pads=[1, 1, 1, 1]), STEP)
    output = graph.requantize(silu(graph, value), STEP)
    (ours,), (reference,), _ = run_both(graph.model(output), tmp_path, desired_layout=layout)
    largest, share = steps_apart(ours, reference, STEP)
    assert largest < 1.5 and share <= 0.02, (largest, share)


def quantization(scale: float, zero_point: int) -> Quantization:
    return Quantization(np.array(scale, "float32"), np.array(zero_point, "int32"), "uint8")


def test_tables_hold_and_round_halves_to_even() -> None:
    values = np.full(256, np.nan, "float32")
    values[:7] = -1e9, 0.25, 0.75, 1.0, 1.25, 1e9, np.inf
    found = ByteFunction(relax.Var("x", relax.TensorType((4,), "uint8")), values).quantized(
        quantization(0.5, 3)
    )
    assert found.integers[:8].tolist() == [0, 3, 5, 5, 5, 255, 255, 0]


def test_numbers_of_several_bytes_are_no_function() -> None:
    left, right = (relax.Var(name, relax.TensorType((4,), "float32")) for name in "xy")
    functions = [ByteFunction(each, EVERY_BYTE.astype("float32")) for each in (left, right)]
    assert applied(relax.op.add(left, right), functions) is None
    assert applied(relax.op.add(left, right), [functions[0], None]) is None
    both = applied(relax.op.add(left, left), [functions[0], functions[0]])
    assert both is not None and both.values.tolist() == [2 * value for value in range(256)]
