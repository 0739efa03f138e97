"""Which elementwise operators are fused into the kernel before them, and what it costs to prevent that."""

from relay_layout.graph import Node, Value
from relay_layout.ir import is_static, size_in_bytes
from relay_layout.ops import is_elementwise
from relay_layout.targets.convolutions import CONVOLUTION_AXES
from relay_layout.targets.target import BuildTarget

MATMUL = "matmul"


def fused_operand(node: Node) -> Value | None:
    """The operand into whose kernel an elementwise operator is fused; None if there is none.

    The operator is its only reader, and has a result of the same shape.
    """
    if not is_elementwise(node.operator):
        return None
    for value in node.operands:
        producer = value.producer
        computes = producer is not None and (
            producer.operator in (*CONVOLUTION_AXES, MATMUL) or is_elementwise(producer.operator)
        )
        if computes and len(value.consumers) == 1 and value.shape == node.results[0].shape:
            return value
    return None


def fusion_break_us(machine: BuildTarget, value: Value) -> float:
    """Microseconds that a transform of ``value`` costs by preventing fusion, in addition to its own time.

    An elementwise reader that would have been fused into the kernel that writes ``value`` becomes a kernel of
    its own, which reads all of it and writes as much. 0 where nothing would have been fused.
    """
    if len(value.consumers) != 1 or fused_operand(value.consumers[0][0]) is not value:
        return 0.0
    if value.shape is None or not is_static(value.shape):
        return machine.facts.launch_us
    moved = 2 * size_in_bytes(value.shape, value.dtype)
    return machine.facts.launch_us + machine.facts.moving_us(moved)
