"""Lower precision where Relay's categories say so, with as few casts as that takes."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_layout import relay
from relay_layout.errors import ModelError, RelayLayoutWarning
from relay_layout.relay.registries import mixed_precision as categories
from relay_layout.relay.transform import FoldConstant, ToMixedPrecision

HALVES = ("float16", "bfloat16")


@pytest.fixture(autouse=True)
def _no_callbacks() -> Iterator[None]:
    yield
    for name in ("nn.conv2d", "nn.softmax", "nn.group_norm", "tanh"):
        categories.MIXED.reset(name)


def mixed(expression: Any, dtype: str = "float16", **options: Any) -> str:
    """Text of an expression in mixed precision."""
    return relay.astext(ToMixedPrecision(dtype, **options)(tvm.IRModule.from_expr(expression)))


def var(name: str, *shape: int, dtype: str = "float32") -> Any:
    return relay.var(name, shape=shape, dtype=dtype)


DATA, WEIGHT, BIAS = var("data", 1, 3, 17, 19), var("weight", 5, 3, 3, 3), var("bias", 5)
A, B = var("a", 1, 20), var("b", 20, 20)
STATISTICS = [var(name, 5) for name in ("gamma", "beta", "mean", "variance")]


def conv(data: Any = DATA, weight: Any = WEIGHT, dtype: str = "float32") -> Any:
    return relay.nn.conv2d(data, weight, padding=(1, 1), channels=5, kernel_size=(3, 3), out_dtype=dtype)


def half_conv(dtype: str) -> Any:
    return conv(relay.cast(DATA, dtype), relay.cast(WEIGHT, dtype), dtype)


def twice(value: Any) -> Any:
    return value + value


def half_dense(dtype: str) -> Any:
    return relay.nn.dense(relay.cast(A, dtype), relay.cast(B, dtype), units=20, out_dtype=dtype)


def indexed(data: Any) -> Any:
    return relay.take(data, var("index", 1, 1, dtype="int32") + relay.const(0, "int32"), axis=0)


def clipped(data: Any) -> Any:
    return relay.clip(data, a_min=-128000.0, a_max=128000.0)


CONVERTED: dict[str, tuple[Any, Callable[[str], Any]]] = {
    "a convolution": (conv(), half_conv),
    "a sum follows": (twice(conv()), lambda dtype: twice(half_conv(dtype))),
    "softmax does not": (
        relay.nn.softmax(conv()),
        lambda dtype: relay.nn.softmax(relay.cast(half_conv(dtype), "float32")),
    ),
    "one cast for two readers": (
        relay.nn.softmax(conv(), 1) + relay.nn.softmax(half := conv(), 2) * relay.exp(half),
        lambda dtype: (
            relay.nn.softmax(relay.cast(half_conv(dtype), "float32"), 1)
            + relay.nn.softmax(wide := relay.cast(half_conv(dtype), "float32"), 2) * relay.exp(wide)
        ),
    ),
    "batch norm": (
        relay.nn.batch_norm(conv(), *STATISTICS)[0],
        lambda dtype: relay.nn.batch_norm(
            half_conv(dtype), *[relay.cast(value, dtype) for value in STATISTICS]
        )[0],
    ),
    "a bias": (
        relay.nn.bias_add(conv(), BIAS),
        lambda dtype: relay.nn.bias_add(half_conv(dtype), relay.cast(BIAS, dtype)),
    ),
    "a bias of what stays wide": (
        relay.nn.bias_add(relay.nn.softmax(DATA), var("shift", 3)),
        lambda dtype: relay.nn.bias_add(relay.nn.softmax(DATA), var("shift", 3)),
    ),
    "dense": (relay.nn.dense(A, B, units=20), half_dense),
    "batch_matmul": (
        relay.nn.batch_matmul(var("x", 2, 3, 5), var("y", 2, 4, 5)),
        lambda dtype: relay.nn.batch_matmul(
            relay.cast(var("x", 2, 3, 5), dtype), relay.cast(var("y", 2, 4, 5), dtype), out_dtype=dtype
        ),
    ),
    "where": (
        relay.where(A, relay.nn.dense(A, B, units=20), relay.nn.dense(A, B, units=20)),
        lambda dtype: relay.where(relay.cast(A, dtype), half_dense(dtype), half_dense(dtype)),
    ),
    "an input that is moved": (
        relay.reshape(A, (4, 5)),
        lambda dtype: relay.reshape(relay.cast(A, dtype), (4, 5)),
    ),
    "integers stay": (indexed(A), lambda dtype: indexed(relay.cast(A, dtype))),
    "a tuple": (
        relay.concatenate([conv(), conv()], 1),
        lambda dtype: relay.concatenate([half_conv(dtype), half_conv(dtype)], 1),
    ),
    "a tuple with an input stays wide": (
        relay.concatenate([conv(), var("z", 1, 2, 17, 19)], 1),
        lambda dtype: relay.concatenate([relay.cast(half_conv(dtype), "float32"), var("z", 1, 2, 17, 19)], 1),
    ),
    "limits": (
        clipped(A / relay.const(5.0)),
        lambda dtype: clipped(
            relay.cast(relay.cast(A, dtype) / relay.cast(relay.const(5.0), dtype), "float32")
            if dtype == "float16"
            else relay.cast(A, dtype) / relay.cast(relay.const(5.0), dtype)
        ),
    ),
    "zeros": (
        relay.zeros((3, 2), "float32") + var("z", 3, 2),
        lambda dtype: relay.zeros((3, 2), dtype) + relay.cast(var("z", 3, 2), dtype),
    ),
}


def text(module: tvm.IRModule) -> str:
    """Relay text with equal calls shared and constants folded, whatever the order of bindings is."""
    return relay.astext(relax.transform.EliminateCommonSubexpr()(FoldConstant()(module)))


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("case", CONVERTED)
def test_casts_are_where_relay_put_them(case: str, dtype: str) -> None:
    before, expected = CONVERTED[case]
    found = ToMixedPrecision(dtype)(tvm.IRModule.from_expr(before))
    assert text(found) == text(tvm.IRModule.from_expr(expected(dtype)))


@pytest.mark.parametrize(
    "wide",
    [
        relay.nn.softmax(DATA),
        twice(relay.nn.softmax(DATA)),
        relay.arange(relay.const(1.0), relay.const(128.0)),
        relay.sum(DATA),
        relay.mean(DATA, 1),
        relay.nn.global_avg_pool2d(DATA),
        relay.nn.adaptive_avg_pool2d(DATA, (1, 1)),
        clipped(DATA),
        var("index", 2, 3, dtype="int32") + relay.const(1),
    ],
    ids=["softmax", "after softmax", "arange", "sum", "mean", "global", "adaptive", "clip", "integers"],
)
def test_what_stays_wide_is_as_it_was(wide: Any) -> None:
    module = tvm.IRModule.from_expr(wide)
    assert text(ToMixedPrecision("float16")(module)) == text(module)


def test_of_an_operator_without_category() -> None:
    waved = relay.cos(A)
    with pytest.raises(ModelError, match=r"no category for cos \(1 times\); relay.op.register_mixed"):
        mixed(waved, missing_op_mode=0)
    with pytest.warns(RelayLayoutWarning, match=r"no category for cos .*, until then they follow"):
        followed = mixed(waved)
    assert followed == mixed(waved, missing_op_mode=2)
    assert followed == relay.astext(tvm.IRModule.from_expr(relay.cos(relay.cast(A, "float16"))))


def test_callbacks_decide_by_the_call() -> None:
    asked: list[Any] = []

    @relay.op.register_mixed_precision_conversion("nn.conv2d", level=11)
    def small_ones(call_node: Any, mixed_precision_type: str) -> list[Any]:
        asked.append((call_node.op.name, call_node.attrs.channels, call_node.args[0].checked_type.shape))
        wide = call_node.args[0].checked_type.shape[1] == 3
        return [2 if wide else 0, "float32", mixed_precision_type]

    net = relay.nn.conv2d(conv(), var("next", 7, 5, 1, 1), channels=7, kernel_size=(1, 1))
    found = mixed(relay.nn.softmax(twice(net)) + relay.exp(net))
    assert asked == [("nn.conv2d", 5, (1, 3, 17, 19)), ("nn.conv2d", 7, (1, 5, 17, 19))]
    summed = relay.nn.conv2d(
        relay.cast(conv(), "float16"),
        relay.cast(var("next", 7, 5, 1, 1), "float16"),
        channels=7,
        kernel_size=(1, 1),
        out_dtype="float32",
    )
    # exp reads the sum as it was before it was rounded.
    expected = relay.nn.softmax(relay.cast(twice(relay.cast(summed, "float16")), "float32")) + relay.exp(
        summed
    )
    assert found == relay.astext(tvm.IRModule.from_expr(expected))


def test_a_callback_for_an_operator_that_is_never_converted() -> None:
    relay.op.register_mixed_precision_conversion("nn.softmax", lambda call, dtype: [1, dtype, dtype])
    assert mixed(relay.nn.softmax(A)) == relay.astext(
        tvm.IRModule.from_expr(relay.nn.softmax(relay.cast(A, "float16")))
    )


@pytest.mark.parametrize(
    "answer", [None, [0, "float16"], [3, "float16", "float16"], [0, "int8", "float16"], ["0", "float16", 1]]
)
def test_callbacks_that_say_something_else(answer: Any) -> None:
    relay.op.register_mixed_precision_conversion("tanh", lambda call, dtype: answer)
    with pytest.raises(ModelError, match=r"mixed precision callback for tanh returned .*, not \[category"):
        mixed(relay.tanh(A))


def test_what_takes_no_bfloat16_stays_wide_unless_it_always_has_to_be_narrow() -> None:
    def normed(data: Any, gamma: Any) -> Any:
        return relay.nn.group_norm(data, gamma, var("beta", 3), num_groups=3)

    module = tvm.IRModule.from_expr(normed(DATA, var("gamma", 3)))
    assert text(ToMixedPrecision("bfloat16", 2)(module)) == text(module)
    narrow = ToMixedPrecision("float16", 2)(module)
    assert str(narrow["main"].ret_ty.dtype) == "float16"
    relay.op.register_mixed_precision_conversion("nn.group_norm", lambda call, dtype: [0, dtype, dtype])
    with pytest.raises(ModelError, match=r"^ToMixedPrecision: nn.group_norm does not take bfloat16: .*NEVER"):
        ToMixedPrecision("bfloat16")(module)


def test_mistakes() -> None:
    with pytest.raises(ModelError, match="'int8' is none of bfloat16, float16, float32, float64"):
        ToMixedPrecision("int8")
    with pytest.raises(ValueError, match="missing_op_mode is 0, 1 or 2, not 3"):
        ToMixedPrecision(missing_op_mode=3)
    with pytest.raises(ModelError, match=r"'nn.konv2d': Relay has no such operator; did you mean nn.conv2d"):
        relay.op.register_mixed_precision_conversion("nn.konv2d", lambda call, dtype: None)


def test_results_keep_their_types_where_that_is_asked_for() -> None:
    net = relay.Tuple([conv(), relay.nn.softmax(conv()), DATA])
    module = ToMixedPrecision("bfloat16", keep_orig_output_dtype=True)(tvm.IRModule.from_expr(net))
    assert [str(field.dtype) for field in module["main"].ret_ty.fields] == ["float32"] * 3
    changed = ToMixedPrecision("bfloat16")(tvm.IRModule.from_expr(net))
    assert [str(field.dtype) for field in changed["main"].ret_ty.fields] == ["bfloat16", "float32", "float32"]


def test_branches_give_what_they_gave() -> None:
    which = relay.var("which", shape=(), dtype="bool")
    net = relay.If(which, relay.nn.relu(conv()), relay.nn.relu(relay.exp(conv())))
    module = ToMixedPrecision("float16")(tvm.IRModule.from_expr(net))
    printed = relay.astext(module, False)
    assert printed.count('out_dtype="float16"') == 2
    assert str(module["main"].ret_ty.dtype) == "float32"


@pytest.mark.parametrize("dtype", HALVES)
def test_constants_are_cast_when_constants_are_folded(dtype: str) -> None:
    weight = relay.const(np.linspace(-1, 1, 135, dtype="float32").reshape(5, 3, 3, 3))
    module = FoldConstant()(ToMixedPrecision(dtype)(tvm.IRModule.from_expr(conv(weight=weight))))
    printed = relay.astext(module)
    assert printed.count("cast(") == 1
    again = relay.parse(printed)
    tvm.ir.assert_structural_equal(again, module)


@pytest.mark.parametrize(("dtype", "bound"), [("float16", 2**-10), ("bfloat16", 2**-7), ("float64", 1e-6)])
@pytest.mark.parametrize("keep", [False, True])
def test_what_is_built_computes_the_same(dtype: str, bound: float, keep: bool) -> None:
    net = relay.nn.max_pool2d(relay.nn.relu(relay.nn.bias_add(conv(), BIAS)), (3, 3), (2, 2))
    net = relay.nn.softmax(relay.nn.batch_flatten(net)) + relay.nn.batch_flatten(net)
    module = tvm.IRModule.from_expr(net)
    random = np.random.default_rng(5)
    arrays = [
        random.standard_normal(shape).astype("float32") for shape in ((1, 3, 17, 19), (5, 3, 3, 3), (5,))
    ]
    results = []
    for form in (module, ToMixedPrecision(dtype, keep_orig_output_dtype=keep)(module)):
        results.append(relay.create_executor("graph", form).evaluate()(*arrays).numpy())
    assert np.abs(results[1] - results[0]).max() < bound * np.abs(results[0]).max()


def test_results_of_bfloat16_are_float32_where_numpy_reads_them() -> None:
    built = relay.build(ToMixedPrecision("bfloat16")(tvm.IRModule.from_expr(relay.Tuple([conv(), DATA]))))
    assert [spec.dtype for spec in built.artifact.manifest.outputs] == ["float32", "float32"]
