"""Bindings that are no plain operator: checks of extents, shapes, tensors of bool or of nothing."""

from collections.abc import Callable

import numpy as np
import tvm
from tvm import relax

from relay_layout.layout_request import LayoutRequest
from relay_layout.rewrite.convert_layout import convert_layout
from relay_layout.targets import resolve_target
from tests.layout_graphs import execute
from tests.relax_modules import main_of
from tests.relay_layout.ops.every_signature import image, integers

op = relax.op
IMAGE = image(2, 8, 6, 6)
KNOWN = relax.TensorType(IMAGE.shape, "float32")
UNKNOWN = relax.TensorType(dtype="float32", ndim=4)
Emit = Callable[[relax.BlockBuilder, relax.Var], relax.Expr]


def conv(builder: relax.BlockBuilder, data: relax.Expr) -> relax.Var:
    return builder.emit(op.nn.conv2d(data, relax.const(image(8, 8, 1, 1, seed=3))))


def symbolic() -> relax.TensorType:
    n, h, w = (tvm.tirx.Var(name, "int64") for name in "nhw")
    return relax.TensorType((n, 8, h, w), "float32")


def transforms_of(emit: Emit, layout: str, kind: relax.TensorType = KNOWN) -> int:
    """Transforms that conversion leaves, once the converted module computes what the original does."""
    data = relax.Var("data", kind)
    with main_of(data) as builder:
        builder.result = relax.Tuple([emit(builder, data)])
    module = builder.finalize()
    target = resolve_target("native", threads=2)
    converted, report = convert_layout(module, LayoutRequest.parse(layout), target)
    for want, have in zip(execute(module, IMAGE), execute(converted, IMAGE), strict=True):
        np.testing.assert_allclose(have, want, 1e-4, 1e-4)
    return report.layout_transforms


def test_a_check_of_extents_carries_the_layout() -> None:
    def checked(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
        return conv(builder, builder.match_cast(conv(builder, data), KNOWN))

    assert transforms_of(checked, "NHWC", symbolic()) == 2


def test_a_check_of_extents_carries_a_block_that_it_knows() -> None:
    def checked(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
        return conv(builder, builder.match_cast(conv(builder, data), KNOWN))

    assert transforms_of(checked, "NCHW4c", symbolic()) == 2


def test_a_check_names_the_extents_of_an_input_of_unknown_shape() -> None:
    def checked(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
        return conv(builder, op.nn.relu(conv(builder, builder.match_cast(data, symbolic()))))

    assert transforms_of(checked, "NHWC", UNKNOWN) == 2


def test_a_slice_of_unknown_extents_keeps_its_layout() -> None:
    def sliced(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
        bounds = integers(0, 2, 0, 1), integers(2, 6, 9, 5), integers(1, 1, 1, 2)
        part = builder.emit(op.dynamic_strided_slice(conv(builder, data), *bounds))
        return builder.match_cast(part, relax.TensorType((2, 4, 6, 2), "float32"))

    assert transforms_of(sliced, "NHWC") == 2


def test_a_shape_is_still_bound_where_it_is_read() -> None:
    def reshaped(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
        value = conv(builder, builder.match_cast(data, symbolic()))
        shape = builder.emit(op.shape_of(data))
        return builder.emit(op.reshape(builder.emit(op.nn.relu(value)), shape))

    assert transforms_of(reshaped, "NHWC", UNKNOWN) == 2


def test_a_condition_is_transformed_into_blocks() -> None:
    def chosen(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
        mask = builder.emit(op.greater(op.cumsum(data, 1), relax.const(0.0)))
        value = conv(builder, data)
        return conv(builder, builder.emit(op.where(mask, value, op.negative(value))))

    assert transforms_of(chosen, "NCHW4c") == 3


def test_an_empty_tensor_passes() -> None:
    def emptied(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
        return builder.emit(op.nn.relu(op.strided_slice(conv(builder, data), [2], [3], [3])))

    assert transforms_of(emptied, "NHWC") == 2
