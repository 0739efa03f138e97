"""Which operators each kernel computes."""

import tvm
from tvm import relax

from relay_layout.lower.kernel_calls import KernelCall, called_functions, calls_left, renamed
from relay_layout.lower.stages import lower, plan_memory
from relay_layout.targets import resolve_target

TARGET = resolve_target("x86-64-v2", threads=1)


def twins() -> tvm.IRModule:
    """Two groups of equal operators, which share a function, and one operator with two results."""
    builder = relax.BlockBuilder()
    image = relax.Var("image", relax.TensorType((1, 4, 6, 6), "float32"))
    with builder.function("main", [image]):
        with builder.dataflow():
            first = builder.emit(relax.op.nn.max_pool2d(image, (3, 3), padding=(1, 1)), "first")
            warm = builder.emit(relax.op.exp(first), "warm")
            second = builder.emit(relax.op.nn.max_pool2d(warm, (3, 3), padding=(1, 1)), "second")
            hot = builder.emit(relax.op.exp(second), "hot")
            halves = builder.emit(relax.op.split(hot, 2, axis=1), "halves")
            total = builder.emit_output(relax.op.add(halves[0], halves[1]), "total")
        builder.emit_func_output(total)
    return builder.finalize()


def test_equal_groups_have_names_of_their_own() -> None:
    lowered = lower(twins(), TARGET, lambda line: None)
    assert [call.operators for call in lowered.calls][:2] == [("first", "warm"), ("second", "hot")]
    assert lowered.calls[0].function == lowered.calls[1].function
    assert lowered.calls[0].bytes == 2 * 4 * 6 * 6 * 4
    assert [name for call in lowered.calls for name in call.operators].count("first") == 1


def test_calls_are_those_that_run() -> None:
    lowered = lower(twins(), TARGET, lambda line: None)
    planned = called_functions(plan_memory(lowered.module, TARGET))
    left = calls_left(lowered.calls, planned)
    assert [call.function for call in left] == planned
    assert {"first", "warm", "second", "hot"} <= {name for call in left for name in call.operators}


def call(function: str, *operators: str) -> KernelCall:
    return KernelCall(function, operators, 4)


def test_a_call_that_is_gone_takes_no_other_name() -> None:
    calls = [call("a", "one"), call("join", "two"), call("b", "three"), call("join", "four")]
    assert calls_left(calls, ["a", "b", "join"]) == [calls[0], calls[2], calls[3]]


def test_a_call_that_came_up_later_has_no_names() -> None:
    assert calls_left([call("a", "one")], ["copy", "a"]) == [KernelCall("copy", (), 0), call("a", "one")]


def test_names_are_replaced_once_each() -> None:
    assert renamed([call("a", "lv", "lv1", "x")], {"lv": "conv", "lv1": "conv"}) == [call("a", "conv", "x")]


def test_a_variant_has_the_names_of_what_it_is_one_of() -> None:
    calls = [call("a", "one"), call("a", "two"), call("b", "three")]
    found = calls_left(calls, ["a_in_rows", "a", "b"], {"a_in_rows": "a"})
    assert found == [call("a_in_rows", "one"), *calls[1:]]
