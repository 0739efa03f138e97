"""Parts of a tensor that are joined again as they were."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

from relay_layout.lower.legalize.rejoined_parts import merge_parts
from tests.module_operators import operators

Emit = Callable[[Any], Any]
CHANNELS = 12


def module_of(body: Callable[[Emit, Any], Any], channels: Any = CHANNELS) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    image = relax.Var("image", relax.TensorType((2, channels, 5), "float32"))
    with builder.function("main", [image]):
        with builder.dataflow():
            result = builder.emit_output(body(builder.emit, image))
        builder.emit_func_output(result)
    return builder.finalize()


def cut(emit: Emit, image: Any, begin: int, end: int, axis: int = 1) -> Any:
    return emit(relax.op.strided_slice(image, [axis], [begin], [end]))


def joined(emit: Emit, *parts: Any) -> Any:
    return emit(relax.op.concat(list(parts), axis=1))


def block_of_yolo(emit: Emit, image: Any) -> Any:
    halves = emit(relax.op.split(image, 2, axis=1))
    first, second = emit(halves[0]), emit(halves[1])
    more = emit(relax.op.tanh(second))
    return joined(emit, first, second, more, emit(relax.op.exp(more)))


def neighbours(emit: Emit, image: Any) -> Any:
    return joined(emit, cut(emit, image, 2, 5), cut(emit, image, 5, 6), cut(emit, image, 6, CHANNELS))


def turned(emit: Emit, image: Any) -> Any:
    return joined(emit, cut(emit, image, 6, CHANNELS), cut(emit, image, 0, 6))


def with_a_gap(emit: Emit, image: Any) -> Any:
    return joined(emit, cut(emit, image, 0, 5), cut(emit, image, 6, CHANNELS))


def along_another_axis(emit: Emit, image: Any) -> Any:
    return joined(emit, cut(emit, image, 0, 2, 2), cut(emit, image, 2, 4, 2))


def of_two_tensors(emit: Emit, image: Any) -> Any:
    return joined(emit, cut(emit, image, 0, 6), cut(emit, emit(relax.op.tanh(image)), 6, CHANNELS))


@pytest.mark.parametrize(
    ("body", "left"),
    [
        (block_of_yolo, ["strided_slice", "tanh", "exp", "concat"]),
        (neighbours, ["strided_slice"]),
        (turned, ["strided_slice", "strided_slice", "concat"]),
        (with_a_gap, ["strided_slice", "strided_slice", "concat"]),
        (along_another_axis, ["strided_slice", "strided_slice", "concat"]),
        (of_two_tensors, ["strided_slice", "tanh", "strided_slice", "concat"]),
    ],
)
def test_what_is_left(body: Callable[[Emit, Any], Any], left: list[str]) -> None:
    module = module_of(body)
    merged = merge_parts(module)
    assert operators(merged) == left
    image = np.random.default_rng(0).standard_normal((2, CHANNELS, 5)).astype("float32")
    expected, found = (
        relax.VirtualMachine(tvm.compile(each, "llvm"), tvm.cpu())["main"](tvm.runtime.tensor(image)).numpy()
        for each in (module, merged)
    )
    np.testing.assert_array_equal(found, expected)


def test_parts_of_an_extent_that_is_not_known_stay() -> None:
    channels = tirx.Var("channels", "int64")
    found = merge_parts(module_of(lambda emit, image: joined(emit, image, cut(emit, image, 0, 3)), channels))
    assert operators(found) == ["strided_slice", "concat"]
