"""The proof that a converted function computes what the original does, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

from relay_layout.choice.plan import plan_layout
from relay_layout.errors import VerificationError
from relay_layout.graph import build_graph
from relay_layout.layout_request import LayoutRequest
from relay_layout.ops import TABLE
from relay_layout.rewrite.rewriter import rewrite
from relay_layout.targets import resolve_target
from relay_layout.verify import meanings, verify
from relay_layout.verify.movement import MOVES
from tests import layout_graphs
from tests.relay_layout.rewrite.test_convert_layout import MODULES, module_of
from tests.relay_layout.verify.mutation import Mutant, mutants

op = relax.op
TARGET = resolve_target("native", threads=2)
LAYOUTS = ("NHWC", "NCHW4c", "NCHW8c", "auto")
Emit = Callable[[relax.BlockBuilder, relax.Var], Any]


class Conversion:
    """A module, what it was converted to, and the check of any function against it."""

    def __init__(self, module: tvm.IRModule, layout: str) -> None:
        module = relax.transform.Normalize()(module)
        # Convolutions of other ranks than two do not have these layouts.
        desired = None if layout == "auto" else {"nn.conv2d": [layout, "default"]}
        self.plan = plan_layout(module, LayoutRequest.parse(desired_layouts=desired), TARGET)
        self.rewritten = rewrite(self.plan.graph, self.plan.solution, dict(self.plan.outputs))

    def verify(self, function: relax.Function | None = None) -> None:
        function = self.rewritten.function if function is None else function
        verify("main", self.plan.graph, function, self.plan.outputs, self.rewritten.placements)

    def refusal(self, function: relax.Function) -> str | None:
        """What is said against a function, None if nothing."""
        try:
            self.verify(function)
        except VerificationError as error:
            return str(error)
        return None


def check_mutants(module: tvm.IRModule, layout: str) -> int:
    """Every mutant is refused, or computes the same numbers; how many were refused."""
    conversion = Conversion(module, layout)
    conversion.verify()
    caught, harmless = 0, []
    for mutant in mutants(conversion.rewritten.function):
        message = conversion.refusal(mutant.function)
        if message is None:
            harmless.append(mutant)
            continue
        caught += 1
        assert "\n" not in message
        if mutant.kind not in ("outputs exchanged", "result exchanged"):
            assert names(message, mutant), f"{mutant.binding}, {mutant.kind}: {message}"
    if harmless:
        shape = [int(extent) for extent in module["main"].params[0].ty.shape.values]
        image = np.random.default_rng(1).uniform(-1, 1, shape).astype("float32")
        expected = computed(conversion.rewritten.function, image)
        for mutant in harmless:
            found = computed(mutant.function, image)
            # A sum in another order rounds otherwise.
            same = all(
                one.shape == other.shape and np.allclose(one, other, rtol=1e-4, atol=1e-5)
                for one, other in zip(found, expected, strict=True)
            )
            assert same, f"{layout}: {mutant.kind} of '{mutant.binding}' was not refused"
    return caught


def computed(function: relax.Function, image: np.ndarray) -> list[np.ndarray]:
    """The results of a function, which may be one tensor or several."""
    result = layout_graphs.compiled(tvm.IRModule({"main": function}))["main"](tvm.runtime.tensor(image))
    tensors = [result] if isinstance(result, tvm.runtime.Tensor) else list(result)
    return [tensor.numpy() for tensor in tensors]


def names(message: str, mutant: Mutant) -> bool:
    """Whether a message names the binding that is wrong, or the first to be seen from which it shows."""
    return f"'{mutant.binding}'" in message or " (by '" in message or "made them" in message


def windows(builder: relax.BlockBuilder, data: relax.Var) -> list[relax.Expr]:
    """Attributes with a part for each dimension, all different."""
    kernel = relax.const(np.random.default_rng(0).standard_normal((8, 16, 3, 2)).astype("float32"))
    first = builder.emit(op.nn.conv2d(data, kernel, strides=(2, 1), padding=(0, 1, 2, 1), dilation=(1, 2)))
    pool = builder.emit(op.nn.avg_pool2d(first, (2, 3), (1, 2), (1, 0, 0, 1)))
    padded = builder.emit(op.nn.pad(pool, [0, 0, 0, 8, 1, 0, 2, 0]))
    return [builder.emit(op.nn.relu(padded)), builder.emit(op.nn.conv2d(padded, weights(4, 16)))]


def parts(builder: relax.BlockBuilder, data: relax.Var) -> list[relax.Expr]:
    """Channels joined, split, sliced and taken."""
    left = builder.emit(op.nn.conv2d(data, weights(16, 16)))
    joined = builder.emit(op.concat([left, builder.emit(op.negative(left))], axis=1))
    halves = builder.emit(op.split(joined, [16], axis=1))
    pair = [builder.emit(relax.TupleGetItem(halves, place)) for place in range(2)]
    other = builder.emit(op.nn.conv2d(builder.emit(op.subtract(*pair)), weights(16, 16)))
    sliced = builder.emit(op.strided_slice(other, [1, 2], [8, 0], [16, 3]))
    turned = builder.emit(op.flip(sliced, 3))
    return [turned, builder.emit(op.nn.conv2d(sliced, weights(4, 8)))]


def statistics(builder: relax.BlockBuilder, data: relax.Var) -> list[relax.Expr]:
    """Normalisations, reductions and what runs along an axis."""
    first = builder.emit(op.nn.conv2d(data, weights(16, 16)))
    gamma, beta = constant(16, 7), constant(16, 7)
    normal = builder.emit(op.nn.layer_norm(first, gamma, beta, axes=[1, 2]))
    soft = builder.emit(op.nn.softmax(normal, axis=1))
    slopes = builder.emit(op.nn.prelu(soft, constant(16), 1))
    total = builder.emit(op.cumsum(slopes, 2))
    second = builder.emit(op.nn.conv2d(total, weights(8, 16)))
    return [builder.emit(op.mean(second, [2, 3])), builder.emit(op.argmax(second, 1))]


def square(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
    """Extents all equal, so that no shape tells one order from another."""
    first = builder.emit(op.nn.conv2d(data, weights(16, 16), padding=1))
    rows = builder.emit(op.multiply(first, constant(16, 16)))
    turned = builder.emit(op.permute_dims(rows, [0, 1, 3, 2]))
    return builder.emit(op.nn.conv2d(builder.emit(op.add(turned, rows)), weights(16, 16), padding=1))


def weights(outputs: int, inputs: int) -> relax.Expr:
    return constant(outputs, inputs, 3, 3)


def constant(*shape: int) -> relax.Expr:
    values = np.random.default_rng(sum(shape)).standard_normal(shape)
    return relax.const(values.astype("float32"))


FUNCTIONS: dict[str, tuple[Emit, tuple[int, ...]]] = {
    **{name: (emit, (1, 16, 9, 9)) for name, (emit, _) in MODULES.items()},
    "windows": (windows, (1, 16, 12, 12)),
    "parts": (parts, (1, 16, 7, 7)),
    "statistics": (statistics, (1, 16, 9, 9)),
    "square": (square, (1, 16, 16, 16)),
}
QUICK = {"residual": "NHWC", "transposed": "NCHW8c", "windows": "NHWC", "parts": "NCHW8c", "square": "NHWC"}


@pytest.mark.parametrize("name", QUICK)
def test_mutants_are_refused(name: str) -> None:
    emit, shape = FUNCTIONS[name]
    assert check_mutants(module_of(emit, shape), QUICK[name]) > 20


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_all_mutants_are_refused(name: str, layout: str) -> None:
    emit, shape = FUNCTIONS[name]
    assert check_mutants(module_of(emit, shape), layout) > 10


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_mutants_of_random_graphs_are_refused(seed: int) -> None:
    graph = layout_graphs.random_graph(seed, 3 + seed % 9)
    if graph.sizes:
        return
    check_mutants(graph.builder.finalize(), LAYOUTS[seed % len(LAYOUTS)])


def sweep(seeds: range, convert: Callable[[tvm.IRModule, int], Any]) -> list[str]:
    found = []
    for seed in seeds:
        try:
            convert(layout_graphs.random_module(seed, 3 + seed % 9), seed)
        except VerificationError as error:
            found.append(f"random_module({seed}, {3 + seed % 9}): {error}")
    return found


def as_the_solver_chooses(module: tvm.IRModule, seed: int) -> Any:
    return layout_graphs.converted_to(module, layout_graphs.LAYOUTS[seed % len(layout_graphs.LAYOUTS)])


@pytest.mark.parametrize("convert", [as_the_solver_chooses, layout_graphs.converted_any])
def test_random_graphs_verify(convert: Callable[[tvm.IRModule, int], Any]) -> None:
    found = sweep(range(300), convert)
    assert not found, "\n".join(found)


@pytest.mark.slow
@pytest.mark.parametrize("convert", [as_the_solver_chooses, layout_graphs.converted_any])
def test_two_thousand_random_graphs_verify(convert: Callable[[tvm.IRModule, int], Any]) -> None:
    found = sweep(range(1000, 3000), convert)
    assert not found, "\n".join(found)


def function_of(emit: Emit, shape: Sequence[Any] = (1, 4, 4, 4)) -> relax.Function:
    return relax.transform.Normalize()(module_of(emit, tuple(shape)))["main"]


def refusal(original: Emit, converted: Emit, shape: Sequence[Any] = (1, 4, 4, 4)) -> str | None:
    """What is said against one function as the conversion of another."""
    try:
        verify("main", build_graph(function_of(original, shape)), function_of(converted, shape), {})
    except VerificationError as error:
        return str(error)
    return None


def written(*steps: Callable[..., relax.Expr]) -> Emit:
    """Each step on the result of the one before, bound to lv, lv1, ..."""

    def emit(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
        value = data
        for step in steps:
            value = builder.emit(step(value))
        return value

    return emit


KERNEL = constant(4, 4, 1, 1)
KERNEL_LAST = relax.const(KERNEL.value.numpy().transpose(2, 3, 1, 0).copy())
TO_NHWC, TO_NCHW = [0, 2, 3, 1], [0, 3, 1, 2]


def last(layout: str = "NHWC", kernel: Any = KERNEL_LAST, **attributes: Any) -> Callable[..., relax.Expr]:
    return lambda x: op.nn.conv2d(x, kernel, data_layout=layout, kernel_layout="HWIO", **attributes)


def permuted(*axes: int) -> Callable[..., relax.Expr]:
    return lambda x: op.permute_dims(x, list(axes))


CONV = written(lambda x: op.nn.conv2d(x, KERNEL))
MEANINGS: dict[str, tuple[Emit, Emit, str]] = {
    "transform": (
        CONV,
        written(permuted(0, 2, 1, 3), last(), permuted(*TO_NCHW)),
        "function 'main', binding 'lv1' (nn.conv2d): tensor 'lv' is provided as ACBD of 'data' (by 'data'), "
        "expected ACDB",
    ),
    "layout attribute": (
        CONV,
        written(permuted(*TO_NHWC), last("NWHC"), permuted(*TO_NCHW)),
        "function 'main', binding 'lv1' (nn.conv2d): tensor 'lv' is provided as ACDB of 'data' (by 'data'), "
        "expected ADCB",
    ),
    "stride": (
        CONV,
        written(permuted(*TO_NHWC), last(strides=2), permuted(*TO_NCHW)),
        "function 'main', binding 'lv1' (nn.conv2d): attribute 'strides' is provided as (2, 2), "
        "expected (1, 1)",
    ),
    "constant": (
        CONV,
        written(permuted(*TO_NHWC), last(kernel=constant(1, 1, 4, 4)), permuted(*TO_NCHW)),
        "function 'main', binding 'lv1' (nn.conv2d): constant 'constant' of shape (1, 1, 4, 4) is not the "
        "original constant of shape (4, 4, 1, 1) in layout CDBA; operands lie as 'data', 'lv' made them",
    ),
    "output": (
        CONV,
        written(permuted(*TO_NHWC), last()),
        "function 'main', binding 'lv1' (output 0): tensor 'lv1' is provided as ACDB of 'lv', expected ABCD",
    ),
    "axis": (
        written(lambda x: op.nn.softmax(x, axis=1)),
        written(permuted(*TO_NHWC), lambda x: op.nn.softmax(x, axis=2), permuted(*TO_NCHW)),
        "function 'main', binding 'lv1' (nn.softmax): tensor 'lv' is provided as ACDB of 'data' (by 'data'); "
        "its dimension 2 is D where 'axis' is expected to be B",
    ),
    "operator": (
        written(op.nn.relu),
        written(op.abs),
        "function 'main', binding 'lv' (abs): the original function has no such operator on 'data', "
        "expected one",
    ),
    "pad widths": (
        written(lambda x: op.nn.pad(x, [0, 0, 1, 2, 0, 0, 0, 0])),
        written(lambda x: op.nn.pad(x, [0, 0, 2, 1, 0, 0, 0, 0])),
        "function 'main', binding 'lv' (nn.pad): a dimension is provided as 'padded (2, 1)', "
        "expected 'padded (1, 2)'; operands lie as 'data' made them",
    ),
}


def test_every_row_of_the_operator_table_has_a_meaning() -> None:
    assert sorted(set(TABLE) - set(meanings.MEANINGS) - set(MOVES)) == []


def test_an_operator_without_a_meaning_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(meanings.MEANINGS, "nn.relu")
    emit = written(permuted(*TO_NHWC), op.nn.relu, permuted(*TO_NCHW))
    assert refusal(written(op.nn.relu), emit) == (
        "function 'main', binding 'lv1' (nn.relu): tensor 'lv' is provided as ACDB of 'data' (by 'data'), "
        "expected ABCD; relay_layout/verify/meanings.py has no row for this operator, so that it may only "
        "be as it was"
    )


@pytest.mark.parametrize("name", MEANINGS)
def test_messages(name: str) -> None:
    original, converted, message = MEANINGS[name]
    assert refusal(original, converted) == message


def blocked(*index: Callable[..., list[Any]]) -> Callable[..., relax.Expr]:
    return lambda x: op.layout_transform(x, tirx.IndexMap.from_func(index[0], ndim=len(x.ty.shape.values)))


SAME: dict[str, tuple[Emit, Emit]] = {
    "a reshape of the same memory": (
        written(op.nn.relu),
        written(lambda x: op.reshape(x, (4, 1, 16)), op.nn.relu, lambda x: op.reshape(x, (1, 4, 4, 4))),
    ),
    "blocks of a reduction": (
        written(lambda x: op.sum(x, [1])),
        written(
            blocked(lambda n, c, h, w: [n, c // 2, h, w, c % 2]),
            lambda x: op.sum(x, [1, 4]),
        ),
    ),
    "concatenation in blocks": (
        written(lambda x: op.concat([x, x], 1)),
        written(
            blocked(lambda n, c, h, w: [n, c // 2, h, w, c % 2]),
            lambda x: op.concat([x, x], 1),
            blocked(lambda n, c, h, w, b: [n, c * 2 + b, h, w]),
        ),
    ),
    "a slice in blocks": (
        written(lambda x: op.strided_slice(x, [1], [2], [4])),
        written(
            blocked(lambda n, c, h, w: [n, c // 2, h, w, c % 2]),
            lambda x: op.strided_slice(x, [1], [1], [2]),
            blocked(lambda n, c, h, w, b: [n, c * 2 + b, h, w]),
        ),
    ),
    "dimensions of a sum in another order": (
        written(lambda x: op.sum(x, [2, 3])),
        written(permuted(0, 3, 1, 2), lambda x: op.sum(x, [1, 3])),
    ),
    "pixel shuffle in parts": (
        written(lambda x: op.nn.pixel_shuffle(x, 2)),
        written(
            lambda x: op.reshape(x, (1, 1, 2, 2, 4, 4)),
            permuted(0, 1, 4, 2, 5, 3),
            lambda x: op.reshape(x, (1, 1, 8, 8)),
        ),
    ),
    "blocks across a merged dimension": (
        written(lambda x: op.reshape(x, (1, 15, 7)), op.abs, lambda x: op.reshape(x, (105,)), op.nn.relu),
        written(
            lambda x: op.reshape(x, (15, 7)),
            op.abs,
            lambda x: op.reshape(x, (21, 5)),
            op.nn.relu,
            lambda x: op.reshape(x, (105,)),
        ),
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_other_ways_to_say_the_same(name: str) -> None:
    original, converted = SAME[name]
    shape = (1, 15, 7) if "across" in name else (1, 4, 4, 4)
    assert refusal(original, converted, shape) is None


WRONG: dict[str, tuple[Emit, Emit]] = {
    "blocks of a reduction": (
        written(lambda x: op.sum(x, [1])),
        written(
            blocked(lambda n, c, h, w: [n, c // 2, h, w, c % 2]),
            lambda x: op.sum(x, [1, 3]),
        ),
    ),
    "a slice of other blocks": (
        written(lambda x: op.strided_slice(x, [1], [2], [4])),
        written(
            blocked(lambda n, c, h, w: [n, c // 2, h, w, c % 2]),
            lambda x: op.strided_slice(x, [1], [0], [1]),
            blocked(lambda n, c, h, w, b: [n, c * 2 + b, h, w]),
        ),
    ),
    "broadcast along another dimension": (
        written(lambda x: op.add(x, constant(4, 1))),
        written(lambda x: op.add(x, relax.const(constant(4, 1).value.numpy().reshape(1, 4)))),
    ),
    "a transpose that a shape hides": (written(op.nn.relu), written(permuted(0, 1, 3, 2), op.nn.relu)),
    "an operand less": (
        written(lambda x: op.subtract(op.abs(x), x)),
        written(lambda x: op.subtract(x, op.abs(x))),
    ),
    "an index map that pads": (
        written(op.nn.relu),
        written(blocked(lambda n, c, h, w: [n, c // 3, h, w, c % 3]), op.nn.relu),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_only_looks_the_same_is_refused(name: str) -> None:
    original, converted = WRONG[name]
    assert refusal(original, converted) is not None


def test_an_index_map_that_tvm_cannot_invert_is_refused() -> None:
    """It gives the bytes as they were, and does not compile: both terms of its sum have one value."""
    split = blocked(lambda n, c, h, w: [n, c // 4, h, w, c % 4])
    turned = blocked(lambda n, c, h, w, b: [b, c * 4 + n, h, w])
    converted = written(split, op.nn.relu, turned, lambda x: op.reshape(x, (1, 4, 4, 4)))
    assert refusal(written(op.nn.relu), converted) == (
        "function 'main', binding 'lv2' (layout_transform): "
        "TVM cannot invert its index map for 'lv1' (by 'data', 'lv') of shape (1, 1, 4, 4, 4)"
    )


def test_one_computation_written_twice_may_be_made_once() -> None:
    def twice(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
        return builder.emit(op.add(builder.emit(op.nn.relu(data)), builder.emit(op.nn.relu(data))))

    def once(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
        value = builder.emit(op.nn.relu(data))
        return builder.emit(op.add(value, value))

    assert refusal(twice, once) is None


def test_a_missing_output_is_refused() -> None:
    def two(builder: relax.BlockBuilder, data: relax.Var) -> Any:
        return [builder.emit(op.nn.relu(data)), builder.emit(op.abs(data))]

    message = refusal(two, written(op.nn.relu))
    assert message == "function 'main' (output): 1 outputs are provided, expected 2"


def test_a_parameter_of_another_shape_is_refused() -> None:
    original, converted = function_of(written(op.abs), (1, 2)), function_of(written(op.abs), (2, 1))
    with pytest.raises(VerificationError) as raised:
        verify("main", build_graph(original), converted, {})
    assert str(raised.value) == (
        "function 'main', binding 'data' (parameter): it is provided as (2, 1), expected (1, 2)"
    )
