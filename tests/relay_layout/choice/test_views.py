"""Which of the layouts of equal memory operators take."""

import numpy as np
import tvm
from tvm import relax

from relay_layout.choice.plan import plan_layout
from relay_layout.graph import Node
from relay_layout.layout_request import LayoutRequest
from relay_layout.rewrite.canonicalize import canonicalize
from relay_layout.rewrite.convert_layout import convert_layout
from relay_layout.targets import resolve_target
from tests.relax_modules import main_of


def squeeze(pixels: int) -> tvm.IRModule:
    """A convolution of an image, bias, activation, and a second convolution."""
    image = relax.Var("image", relax.TensorType((8, 32, pixels, pixels), "float32"))
    with main_of(image) as builder:
        found: relax.Expr = image
        for _ in range(2):
            weight = relax.const(np.ones((32, 32, 1, 1), "float32"))
            bias = relax.const(np.ones((1, 32, 1, 1), "float32"))
            found = builder.emit(relax.op.nn.conv2d(found, weight))
            found = builder.emit(relax.op.nn.relu(builder.emit(relax.op.add(found, bias))))
        builder.result = found
    return builder.finalize()


def test_operators_read_one_pixel_as_it_was_written() -> None:
    """Reshapes are left at the border alone, where the caller's layout is."""
    target = resolve_target("cuda-sm_80", precision="fp16")
    module = canonicalize(squeeze(1))
    plan = plan_layout(module, LayoutRequest.parse("auto"), target)
    chosen = plan.solution.signatures
    written = {
        value: layout
        for node in plan.graph.nodes
        for value, layout in zip(node.results, chosen[node].results, strict=True)
    }
    parted: list[Node] = [
        node
        for node in plan.graph.nodes
        for value, layout in zip(node.operands, chosen[node].operands, strict=True)
        if value.producer is not None and written[value] != layout
    ]
    assert parted == []
    converted, _ = convert_layout(module, LayoutRequest.parse("auto"), target)
    assert converted.script().count("R.reshape(") == 2
