"""What a transform costs beside its own time where it parts an operator from the kernel before it."""

import pytest
from tvm import relax

from relay_layout.graph import Graph, build_graph
from relay_layout.targets import resolve_target
from relay_layout.targets.fusion import fused_operand, fusion_break_us
from tests.relax_modules import main_of

MACHINE = resolve_target("x86-64-v4", threads=2, shipped_records=False)
SHAPE = (1, 16, 8, 8)


def graph_of(returned: bool) -> Graph:
    """A convolution, a bias and a ReLU; ``returned``: the sum is read once more."""
    data = relax.Var("data", relax.TensorType(SHAPE, "float32"))
    weight = relax.Var("weight", relax.TensorType((16, 16, 3, 3), "float32"))
    bias = relax.Var("bias", relax.TensorType((1, 16, 1, 1), "float32"))
    with main_of(data, weight, bias) as builder:
        convolved = builder.emit(relax.op.nn.conv2d(data, weight, padding=1))
        added = builder.emit(relax.op.add(convolved, bias))
        result = builder.emit(relax.op.nn.relu(added))
        builder.result = builder.emit(relax.op.multiply(result, added)) if returned else result
    return build_graph(builder.finalize()["main"])


def test_elementwise_operators_join_what_they_read() -> None:
    convolution, add, relu = graph_of(returned=False).nodes
    assert fused_operand(add) is convolution.results[0]
    assert fused_operand(relu) is add.results[0]
    assert fused_operand(convolution) is None


def test_a_parted_operator_reads_and_writes_its_tensor() -> None:
    convolution, _, relu = graph_of(returned=False).nodes
    facts = MACHINE.facts
    moved = 2 * 16 * 8 * 8 * 4 / (facts.gigabytes_per_second * 1e3)
    assert fusion_break_us(MACHINE, convolution.results[0]) == pytest.approx(facts.launch_us + moved)
    assert fusion_break_us(MACHINE, relu.results[0]) == 0.0


def test_a_tensor_with_two_readers_parts_nothing() -> None:
    graph = graph_of(returned=True)
    assert fusion_break_us(MACHINE, graph.nodes[1].results[0]) == 0.0
