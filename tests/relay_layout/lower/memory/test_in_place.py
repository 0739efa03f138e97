"""Concatenations whose operands are computed in their places, and slices that are read in theirs."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, te, topi

from relay_layout.lower.fusion.patterns import OPAQUE, PATTERN
from relay_layout.lower.memory.in_place import CONCAT, SLICE
from relay_layout.lower.passes import machine_passes, memory_passes
from relay_layout.lower.stages import lower
from relay_layout.targets import resolve_target
from tests.relax_modules import main_of
from topi_ext.codegen.build import PIPELINE

TARGET = resolve_target("native", threads=1)
SHAPE = (1, 4, 3, 16)

Emit = Callable[[Any], Any]


def module_of(body: Callable[[Emit, Any], Any], shape: tuple[int, ...] = SHAPE) -> tvm.IRModule:
    image = relax.Var("image", relax.TensorType(shape, "float32"))
    with main_of(image) as builder:
        builder.result = body(builder.emit, image)
    return builder.finalize()


def run(module: tvm.IRModule) -> tuple[list[np.ndarray], int]:
    """What main computes, and how many concatenations and slices are left in it."""
    lowered = lower(module, TARGET, lambda line: None).module
    joins = {
        str(variable.name_hint)
        for variable, function in lowered.functions_items()
        if function.attrs is not None and (CONCAT in function.attrs or SLICE in function.attrs)
    }
    with TARGET.tvm_target:
        passes = tvm.transform.Sequential([*memory_passes(TARGET), *machine_passes()])
        planned = passes(lowered)
        executable = relax.build(
            lowered,
            TARGET.tvm_target,
            relax_pipeline=passes,
            tir_pipeline=PIPELINE,
        )
    shape = [int(extent) for extent in module["main"].params[0].ty.shape.values]
    image = np.random.default_rng(0).standard_normal(shape).astype("float32")
    result = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(image))
    results = [result] if isinstance(result, tvm.runtime.Tensor) else list(result)
    calls = [binding.value for block in planned["main"].body.blocks for binding in block.bindings]
    left = sum(isinstance(call, relax.Call) and getattr(call.op, "name_hint", "") in joins for call in calls)
    return [tensor.numpy() for tensor in results], left


def image_of(shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


def pooled(emit: Emit, value: Any, times: int = 1) -> Any:
    """A kernel that joins no other: a maximum over rows."""
    for _ in range(times):
        value = emit(relax.op.nn.max_pool2d(value, [1, 3], [1, 1], [0, 1, 0, 1]))
    return value


def maximum(array: np.ndarray, times: int = 1) -> np.ndarray:
    for _ in range(times):
        padded = np.pad(array, [(0, 0)] * 3 + [(1, 1)], constant_values=-np.inf)
        array = np.maximum(np.maximum(padded[..., :-2], padded[..., 1:-1]), padded[..., 2:])
    return array


def test_operands_are_computed_in_their_places() -> None:
    def body(emit: Emit, image: Any) -> Any:
        joined = emit(relax.op.concat([pooled(emit, image), pooled(emit, image, 2)], axis=1))
        return pooled(emit, joined)

    (result,), left = run(module_of(body))
    image = image_of()
    expected = maximum(np.concatenate([maximum(image), maximum(image, 2)], axis=1))
    np.testing.assert_array_equal(result, expected)
    assert left == 0


def test_a_result_that_is_joined_to_more_is_a_part_itself() -> None:
    def body(emit: Emit, image: Any) -> Any:
        inner = emit(relax.op.concat([pooled(emit, image), pooled(emit, image, 2)], axis=1))
        outer = emit(relax.op.concat([pooled(emit, image, 3), inner], axis=1))
        return pooled(emit, outer)

    (result,), left = run(module_of(body))
    image = image_of()
    parts = [maximum(image, 3), maximum(image), maximum(image, 2)]
    np.testing.assert_array_equal(result, maximum(np.concatenate(parts, axis=1)))
    assert left == 0


def test_a_part_may_be_read_by_others() -> None:
    def body(emit: Emit, image: Any) -> Any:
        first, second = pooled(emit, image), pooled(emit, image, 2)
        joined = emit(relax.op.concat([first, second], axis=1))
        return emit(relax.op.concat([pooled(emit, joined), pooled(emit, second)], axis=1))

    (result,), _ = run(module_of(body))
    image = image_of()
    joined = np.concatenate([maximum(image), maximum(image, 2)], axis=1)
    np.testing.assert_array_equal(result, np.concatenate([maximum(joined), maximum(image, 3)], axis=1))


@pytest.mark.parametrize(
    ("case", "left"),
    [("input", 1), ("twice", 1), ("two results", 1), ("output", 1), ("other axis", 0), ("odd size", 0)],
)
def test_what_keeps_its_copy(case: str, left: int) -> None:
    """What is left of a concatenation by its operands; those of another axis or of odd sizes are in place."""
    shape = (1, 4, 3, 15) if case == "odd size" else SHAPE

    def body(emit: Emit, image: Any) -> Any:
        first, second = pooled(emit, image), pooled(emit, image, 2)
        axis = 2 if case == "other axis" else 1
        pair = {"input": [first, image], "twice": [first, first]}.get(case, [first, second])
        joined = emit(relax.op.concat(pair, axis=axis))
        if case == "output":
            return relax.Tuple([joined])
        if case == "two results":
            other = emit(relax.op.concat([second, pooled(emit, image, 3)], axis=axis))
            return relax.Tuple([pooled(emit, joined), pooled(emit, other)])
        return pooled(emit, joined)

    results, found = run(module_of(body, shape))
    image = image_of(shape)
    first, second = maximum(image), maximum(image, 2)
    axis = 2 if case == "other axis" else 1
    pair = {"input": [first, image], "twice": [first, first]}.get(case, [first, second])
    joined = np.concatenate(pair, axis=axis)
    expected = [joined if case == "output" else maximum(joined)]
    if case == "two results":
        expected.append(maximum(np.concatenate([second, maximum(image, 3)], axis=axis)))
    for got, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(got, wanted)
    assert found == left


def test_a_part_that_no_index_finds_keeps_its_copy() -> None:
    """A transpose reads and writes vectors of a tensor that is all in one."""

    def body(emit: Emit, image: Any) -> Any:
        turned = emit(relax.op.permute_dims(image, [0, 1, 3, 2]))
        joined = emit(relax.op.concat([turned, pooled(emit, turned)], axis=3))
        return pooled(emit, joined)

    shape = (1, 4, 16, 32)
    (result,), left = run(module_of(body, shape))
    turned = image_of(shape).transpose(0, 1, 3, 2)
    expected = maximum(np.concatenate([turned, maximum(turned)], axis=3))
    np.testing.assert_array_equal(result, expected)
    assert left == 1


def test_what_another_function_hands_on_is_not_written_over() -> None:
    builder = relax.BlockBuilder()
    tensor, image = (relax.Var(name, relax.TensorType(SHAPE, "float32")) for name in ("tensor", "image"))
    with builder.function("same", [tensor], private=True):
        builder.emit_func_output(tensor)
    same = builder.get().get_global_var("same")
    with builder.function("main", [image]):
        handed_on = builder.emit(relax.Call(same, [pooled(builder.emit, image)]))
        value = image
        for _ in range(2):
            pair = [pooled(builder.emit, value, times) for times in (1, 2)]
            value = pooled(builder.emit, builder.emit(relax.op.concat(pair, axis=1)))
            value = builder.emit(relax.op.strided_slice(value, [1], [2], [6]))
        builder.emit_func_output(builder.emit(relax.op.add(value, handed_on)))

    (result,), left = run(builder.finalize())
    value = image_of()
    for _ in range(2):
        value = maximum(np.concatenate([maximum(value), maximum(value, 2)], axis=1))[:, 2:6]
    np.testing.assert_array_equal(result, value + maximum(image_of()))
    assert left == 0


@pytest.mark.parametrize("operator", [CONCAT, SLICE])
def test_what_converts_numbers_keeps_its_copy(operator: str) -> None:
    """As where one operand stays float32 and what it is joined to becomes narrow."""

    def converted(*tensors: te.Tensor) -> te.Tensor:
        wide = [topi.cast(tensor, "float32") for tensor in tensors]
        if operator == CONCAT:
            return topi.concatenate(wide, 1)
        return topi.strided_slice(*wide, [1], [3], [1], [1])

    builder = relax.BlockBuilder()
    image = relax.Var("image", relax.TensorType(SHAPE, "float32"))
    with builder.function("main", [image]):
        narrow = pooled(builder.emit, builder.emit(relax.op.astype(image, "float16")))
        operands = [narrow, pooled(builder.emit, image)] if operator == CONCAT else [narrow]
        attributes = {operator: 1 if operator == CONCAT else [1, 1], PATTERN: OPAQUE}
        made = builder.call_te(converted, *operands, primfunc_attrs=attributes)
        builder.emit_func_output(pooled(builder.emit, builder.emit(made)))

    (result,), left = run(builder.finalize())
    first = maximum(image_of().astype("float16").astype("float32"))
    made = np.concatenate([first, maximum(image_of())], axis=1) if operator == CONCAT else first[:, 1:3]
    np.testing.assert_array_equal(result, maximum(made))
    assert left == 1


def test_rows_of_a_part_of_a_part() -> None:
    """The inner result has rows of 48 elements in rows of 64, its operands begin at any element of those."""

    def body(emit: Emit, image: Any) -> Any:
        odd = pooled(emit, emit(relax.op.strided_slice(image, [3], [0], [11])))
        inner = emit(relax.op.concat([pooled(emit, odd), pooled(emit, image)], axis=3))
        outer = emit(relax.op.concat([pooled(emit, odd, 2), inner, pooled(emit, image, 2)], axis=3))
        return pooled(emit, outer)

    shape = (2, 4, 3, 16)
    (result,), left = run(module_of(body, shape))
    image = image_of(shape)
    odd = maximum(image[..., :11])
    parts = [maximum(odd, 2), maximum(odd), maximum(image), maximum(image, 2)]
    np.testing.assert_array_equal(result, maximum(np.concatenate(parts, axis=3)))
    # That of the input, which is nobody's part.
    assert left == 1


@pytest.mark.parametrize(("axis", "begin", "end"), [(1, 1, 3), (3, 5, 16), (3, 0, 7)])
def test_a_slice_is_read_in_its_place(axis: int, begin: int, end: int) -> None:
    def body(emit: Emit, image: Any) -> Any:
        whole = pooled(emit, image)
        part = emit(relax.op.strided_slice(whole, [axis], [begin], [end]))
        return relax.Tuple([pooled(emit, part), pooled(emit, whole, 2)])

    shape = (2, 4, 3, 16)
    results, left = run(module_of(body, shape))
    whole = maximum(image_of(shape))
    part = whole[(slice(None),) * axis + (slice(begin, end),)]
    np.testing.assert_array_equal(results[0], maximum(part))
    np.testing.assert_array_equal(results[1], maximum(whole, 2))
    assert left == 0


@pytest.mark.parametrize("case", ["input", "output", "given away"])
def test_slices_that_stay_copies(case: str) -> None:
    """Those of what the caller gives or gets, and those that the caller gets."""

    def body(emit: Emit, image: Any) -> Any:
        whole = image if case == "input" else pooled(emit, image)
        part = emit(relax.op.strided_slice(whole, [3], [2], [9]))
        rest = {"input": [], "output": [whole], "given away": [part]}[case]
        return relax.Tuple([pooled(emit, part), *rest])

    results, left = run(module_of(body))
    whole = image_of() if case == "input" else maximum(image_of())
    part = whole[..., 2:9]
    expected = [maximum(part), *{"input": [], "output": [whole], "given away": [part]}[case]]
    for got, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(got, wanted)
    assert left == 1


@pytest.mark.parametrize(("axis", "batch"), [(1, 1), (1, 2), (3, 2)])
@pytest.mark.parametrize("seed", range(12))
def test_random_graphs(seed: int, axis: int, batch: int) -> None:
    """Kernels, concatenations and slices of whatever came before: storages that are shared must not meet."""
    shape = (batch, 4, 3, 16)

    def walk(
        join: Callable[[list[Any]], Any],
        cut: Callable[[Any, int, int], Any],
        kernel: Callable[[Any], Any],
        image: Any,
    ) -> list[Any]:
        rng = random.Random(seed)
        values, channels = [image], [shape[axis]]
        for _ in range(14):
            if rng.random() < 0.4:
                chosen = [rng.randrange(len(values)) for _ in range(rng.randint(2, 3))]
                if sum(channels[place] for place in chosen) <= 16 * shape[axis]:
                    values.append(join([values[place] for place in chosen]))
                    channels.append(sum(channels[place] for place in chosen))
                    continue
            place = max(0, len(values) - 1 - rng.randrange(4))
            value, extent = values[place], channels[place]
            if extent > 2 and rng.random() < 0.3:
                begin = rng.randrange(extent - 1)
                end = rng.randint(begin + 1, extent)
                value, extent = cut(value, begin, end), end - begin
            values.append(kernel(value))
            channels.append(extent)
        return values[-2:]

    def body(emit: Emit, image: Any) -> Any:
        return relax.Tuple(
            walk(
                lambda parts: emit(relax.op.concat(parts, axis=axis)),
                lambda part, begin, end: emit(relax.op.strided_slice(part, [axis], [begin], [end])),
                lambda part: pooled(emit, part),
                image,
            )
        )

    results, _ = run(module_of(body, shape))
    expected = walk(
        lambda parts: np.concatenate(parts, axis=axis),
        lambda part, begin, end: part[(slice(None),) * axis + (slice(begin, end),)],
        maximum,
        image_of(shape),
    )
    for got, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(got, wanted, err_msg=f"seed {seed}")
