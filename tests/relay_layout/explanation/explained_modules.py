"""Small graphs whose layouts are explained, and plans of them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relax

from relay_layout.choice.plan import LayoutPlan, plan_layout
from relay_layout.layout_request import LayoutRequest
from relay_layout.targets import resolve_target
from tests import layout_graphs

op = relax.op
TARGET = resolve_target("native", threads=2)
Emit = Callable[[relax.BlockBuilder, relax.Var], relax.Expr]


def weight(*shape: int) -> relax.Expr:
    return relax.const(np.ones(shape, "float32"))


def module_of(emit: Emit, shape: Any = (1, 16, 9, 9)) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    data = relax.Var(
        "data", shape if isinstance(shape, relax.TensorType) else relax.TensorType(shape, "float32")
    )
    with builder.function("main", [data]):
        with builder.dataflow():
            result = builder.emit_output(emit(builder, data), "result")
        builder.emit_func_output(result)
    return builder.finalize()


def conv(
    builder: relax.BlockBuilder, data: relax.Expr, name: str, outputs: int, **attributes: Any
) -> relax.Expr:
    inputs = int(data.ty.shape.values[1]) // int(attributes.get("groups", 1))
    call = op.nn.conv2d(data, weight(outputs, inputs, 3, 3), padding=1, **attributes)
    return builder.emit(call, name)


def between(middle: Callable[[relax.Expr], relax.Expr], channels: int = 16) -> tvm.IRModule:
    """conv "first", the operator "middle", conv "last"."""

    def emit(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
        found = builder.emit(middle(conv(builder, data, "first", channels)), "middle")
        return conv(builder, found, "last", channels)

    return module_of(emit)


def planned(module: tvm.IRModule, layout: str = "auto", **options: Any) -> LayoutPlan:
    request = LayoutRequest.parse(layout, **options)
    return plan_layout(relax.transform.Normalize()(module), request, TARGET)


def relu_between() -> tvm.IRModule:
    return between(op.nn.relu)


def random_plan(seed: int) -> LayoutPlan:
    layout = layout_graphs.LAYOUTS[seed % len(layout_graphs.LAYOUTS)]
    module = relax.transform.Normalize()(layout_graphs.random_module(seed, 3 + seed % 9))
    return plan_layout(module, layout_graphs.request_for(layout), TARGET)
