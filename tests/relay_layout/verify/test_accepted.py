"""Right conversions that are hard to prove: symbolic or renamed extents, tensors without elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_layout.choice.solver import Solution
from relay_layout.errors import VerificationError
from relay_layout.graph import build_graph
from relay_layout.layout import Layout
from relay_layout.ops import Signature, unchanged
from relay_layout.rewrite.rewriter import rewrite
from relay_layout.verify import verify
from tests import layout_graphs
from tests.relax_modules import module_giving
from tests.relay_layout.rewrite.test_convert_layout import module_of
from tests.relay_layout.verify.test_verify import (
    check_mutants,
    function_of,
    permuted,
    refusal,
    weights,
    written,
)

op = relax.op
Emit = Callable[[relax.BlockBuilder, relax.Var], Any]
DRAWS = 12


def named(*names: str) -> list[Any]:
    return [tvm.tirx.Var(name, "int64") for name in names]


def merged_batch(builder: relax.BlockBuilder, data: relax.Var) -> Any:
    """Channels in blocks beside a batch that was one dimension with them."""
    n, c, h, w = data.ty.shape.values
    middle = builder.emit(op.abs(builder.emit(op.reshape(data, (n * c, h, w)))))
    back = builder.emit(op.reshape(middle, (n, c, h, w)))
    return [builder.emit(op.nn.conv2d(back, weights(8, 16))), builder.emit(op.clip(back, 0.25, 6))]


def groups_in_batch(builder: relax.BlockBuilder, data: relax.Var) -> Any:
    """Groups of channels taken together with the batch, as group norm is often written."""
    n, c, h, w = data.ty.shape.values
    groups = builder.emit(op.reshape(data, (n * 4, int(c) // 4, h, w)))
    soft = builder.emit(op.nn.softmax(groups, 1))
    return builder.emit(op.nn.conv2d(builder.emit(op.reshape(soft, (n, c, h, w))), weights(8, 16)))


def renamed_batch(builder: relax.BlockBuilder, data: relax.Var) -> Any:
    """Extents checked under names that are known, and the names used after it."""
    n, h = named("rows", "edge")
    first = builder.emit(op.nn.conv2d(data, weights(16, 16), padding=1))
    checked = builder.match_cast(first, relax.TensorType((n, 16, 8, h), "float32"))
    flat = builder.emit(op.reshape(builder.emit(op.nn.relu(checked)), (n * 16, 8, h)))
    return [builder.emit(op.nn.relu(flat)), builder.emit(op.nn.conv2d(checked, weights(8, 16)))]


def renamed_input(builder: relax.BlockBuilder, data: relax.Var) -> Any:
    """The input under another name, beside itself."""
    (n,) = named("rows")
    checked = builder.match_cast(data, relax.TensorType((n, *data.ty.shape.values[1:]), "float32"))
    return [builder.emit(op.nn.conv2d(checked, weights(8, 16))), builder.emit(op.nn.relu(data))]


def empty_constant(builder: relax.BlockBuilder, data: relax.Var) -> Any:
    """Nothing joined to channels, before and after."""
    first = builder.emit(op.nn.conv2d(data, weights(16, 16), padding=1))
    nothing = relax.const(np.zeros((1, 0, 8, 8), "float32"))
    joined = builder.emit(op.concat([nothing, first, nothing], 1))
    return builder.emit(op.nn.conv2d(joined, weights(8, 16)))


def empty_parts(builder: relax.BlockBuilder, data: relax.Var) -> Any:
    """Channels sliced where a part is nothing, turned, and joined in another order."""
    first = builder.emit(op.nn.conv2d(data, weights(16, 16), padding=1))
    low, none, high = (
        builder.emit(op.strided_slice(first, [1], [begin], [end])) for begin, end in ((0, 4), (4, 4), (4, 16))
    )
    turned = builder.emit(op.permute_dims(builder.emit(op.abs(none)), [0, 2, 3, 1]))
    back = builder.emit(op.permute_dims(turned, [0, 3, 1, 2]))
    joined = builder.emit(op.concat([high, back, low], 1))
    return [joined, none, builder.emit(op.sum(none, [1]))]


def standardized_weights(builder: relax.BlockBuilder, data: relax.Var) -> Any:
    """A constant beside what is computed of it and broadcast over all but one of its dimensions."""
    kernel = weights(16, 16)
    mean = builder.emit(op.mean(kernel, [1, 2, 3], keepdims=True))
    return builder.emit(op.nn.conv2d(data, builder.emit(op.subtract(kernel, mean))))


SYMBOLIC: dict[str, Emit] = {
    "merged batch": merged_batch,
    "groups in batch": groups_in_batch,
    "renamed input": renamed_input,
    "standardized weights": standardized_weights,
}
KNOWN: dict[str, Emit] = {
    **SYMBOLIC,
    "renamed batch": renamed_batch,
    "empty constant": empty_constant,
    "empty parts": empty_parts,
}
CASES = [
    *[(name, emit, (tvm.tirx.Var("n", "int64"), 16, 8, 8)) for name, emit in SYMBOLIC.items()],
    *[(name, emit, (1, 16, 8, 8)) for name, emit in KNOWN.items()],
]


@pytest.mark.parametrize(("name", "emit", "shape"), CASES, ids=[f"{case[0]} {case[2][0]}" for case in CASES])
def test_right_conversions_are_accepted(name: str, emit: Emit, shape: tuple[Any, ...]) -> None:
    module = module_of(emit, shape)
    for layout in layout_graphs.LAYOUTS:
        layout_graphs.converted_to(module, layout)
    for seed in range(DRAWS):
        layout_graphs.converted_any(module, seed)


@pytest.mark.parametrize("emit", [renamed_batch, empty_constant, empty_parts, standardized_weights])
@pytest.mark.parametrize("layout", ["NHWC", "NCHW4c"])
def test_what_is_wrong_there_is_refused(emit: Emit, layout: str) -> None:
    assert check_mutants(module_of(emit, (1, 16, 8, 8)), layout) > 10


def test_a_batch_merged_with_others_is_refused() -> None:
    shape = (*named("n"), 4, 3, 3)
    flat = written(lambda x: op.reshape(x, (shape[0] * 4, 3, 3)), op.nn.relu)
    turned = written(permuted(1, 0, 2, 3), lambda x: op.reshape(x, (shape[0] * 4, 3, 3)), op.nn.relu)
    assert refusal(flat, turned, shape) == (
        "function 'main', binding 'lv2' (output 0): tensor 'lv2' is provided as (4a A)BC of 'lv1' (by "
        "'data', 'lv', 'lv1'), expected ABC"
    )


def test_a_check_of_another_extent_is_refused() -> None:
    def checked(*extents: Any) -> Emit:
        def emit(builder: relax.BlockBuilder, data: relax.Var) -> Any:
            return builder.emit(op.nn.relu(builder.match_cast(data, relax.TensorType(extents, "float32"))))

        return emit

    n, c, h = named("n", "c", "h")
    assert refusal(checked(n, n, h), checked(n, c, n), (n, c, h)) == (
        "function 'main', binding 'lv' (match_cast): tensor 'data' is provided as ABC of 'data'; its "
        "dimension 0 is A where a dimension of no part of its own is expected to be B or C"
    )


def test_nothing_of_another_kind_is_refused() -> None:
    original = function_of(written(lambda x: op.strided_slice(x, [1], [0], [0])))
    converted = function_of(
        written(lambda x: op.astype(op.strided_slice(x, [1], [0], [0]), "float16"), op.nn.relu)
    )
    with pytest.raises(VerificationError) as raised:
        verify("main", build_graph(original), converted, {})
    assert str(raised.value) == (
        "function 'main', binding 'lv2' (output 0): tensor 'lv2' is provided as 'lv2' "
        "(by 'data', 'lv', 'lv1'), expected 'lv'"
    )


@pytest.mark.parametrize("by_callback", [True, False])
def test_only_what_a_callback_chose_is_taken_as_declared(by_callback: bool) -> None:
    graph = build_graph(function_of(written(op.nn.relu)))
    own = Layout.parse("ABCD")
    chosen = Signature(
        (own,), (own,), replacement=lambda builder, operands: op.abs(operands[0]), by_callback=by_callback
    )
    solution = Solution({graph.nodes[0]: chosen}, "drawn", 0.0, 0.0, 0.0)
    rewritten = rewrite(graph, solution, {})
    if by_callback:
        verify("main", graph, rewritten.function, {}, rewritten.placements)
        return
    with pytest.raises(VerificationError) as raised:
        verify("main", graph, rewritten.function, {}, rewritten.placements)
    assert str(raised.value) == (
        "function 'main', binding 'gv' (abs): the original function has no such operator on 'data', "
        "expected one"
    )


def test_a_callback_is_told_from_the_operator_as_it_is() -> None:
    node = build_graph(function_of(written(op.nn.relu))).nodes[0]
    original = unchanged(node)
    assert Signature(original.operands, original.results, by_callback=True) != original


def test_lists_of_updates_of_any_size_are_accepted() -> None:
    shapes = {"data": named("a", "b"), "places": named("c", "d"), "updates": named("e", "f")}
    dtypes = ("float32", "int64", "float32")
    inputs = [
        relax.Var(name, relax.TensorType(shape, dtype))
        for (name, shape), dtype in zip(shapes.items(), dtypes, strict=True)
    ]
    layout_graphs.converted_to(module_giving(op.scatter_elements(*inputs, axis=0), *inputs), "NHWC")
