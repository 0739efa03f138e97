"""Tensors of symbolic size take turns in storages, whichever is the larger at the size of a call."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

from relay_layout.ir import bindings_of, operator_name
from relay_layout.lower.memory.dynamic_storage import share_dynamic_storages
from relay_layout.lower.memory.operators import STORAGE
from relay_layout.lower.passes import machine_passes, memory_passes
from relay_layout.lower.stages import lower
from relay_layout.targets import resolve_target
from tests.relax_modules import main_of
from topi_ext.codegen.build import PIPELINE
from topi_ext.extents import fixed

TARGET = resolve_target("native", threads=1)
HEIGHT, WIDTH = (tirx.Var(name, "int64") for name in ("height", "width"))

Emit = Callable[[Any], Any]


def module_of(body: Callable[[Emit, Any], Any]) -> tvm.IRModule:
    image = relax.Var("image", relax.TensorType((1, 4, HEIGHT, WIDTH), "float32"))
    with main_of(image) as builder:
        builder.result = body(builder.emit, image)
    return builder.finalize()


def pooled(emit: Emit, value: Any) -> Any:
    """A kernel that joins no other: a maximum over three columns."""
    return emit(relax.op.nn.max_pool2d(value, [1, 3], [1, 1], [0, 1, 0, 1]))


def maximum(array: np.ndarray) -> np.ndarray:
    padded = np.pad(array, [(0, 0)] * 3 + [(1, 1)], constant_values=-np.inf)
    return np.maximum(np.maximum(padded[..., :-2], padded[..., 1:-1]), padded[..., 2:])


def storages(module: tvm.IRModule) -> list[Any]:
    """The symbolic sizes of what main allocates, planned."""
    with TARGET.tvm_target:
        planned = tvm.transform.Sequential(memory_passes(TARGET))(lower(module, TARGET).module)
    calls = [binding.value for binding in bindings_of(planned["main"])]
    sizes = [call.args[0].values[0] for call in calls if operator_name(call) == STORAGE]
    return [size for size in sizes if fixed(size) is None]


def run(module: tvm.IRModule, *images: np.ndarray) -> list[Any]:
    """What main computes of each image, a list where there are several outputs."""
    passes = tvm.transform.Sequential([*memory_passes(TARGET), *machine_passes()])
    lowered = lower(module, TARGET).module
    with TARGET.tvm_target:
        executable = relax.build(lowered, TARGET.tvm_target, relax_pipeline=passes, tir_pipeline=PIPELINE)
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    results = [main(tvm.runtime.tensor(image)) for image in images]
    return [
        one.numpy() if isinstance(one, tvm.runtime.Tensor) else [each.numpy() for each in one]
        for one in results
    ]


def image_of(height: int, width: int) -> np.ndarray:
    return np.random.default_rng(height).standard_normal((1, 4, height, width)).astype("float32")


def rows_then_columns(emit: Emit, image: Any) -> Any:
    """Of as many elements as there are rows, then as columns."""
    rows = pooled(emit, emit(relax.op.max(image, [3], keepdims=True)))
    most = pooled(emit, emit(relax.op.max(rows, [2], keepdims=True)))
    columns = pooled(emit, emit(relax.op.add(emit(relax.op.max(image, [2], keepdims=True)), most)))
    return emit(relax.op.add(pooled(emit, columns), image))


def test_a_storage_is_as_large_as_the_larger_of_its_tensors() -> None:
    module = module_of(rows_then_columns)
    sizes = storages(module)
    assert any(isinstance(size, tirx.Max) for size in sizes), sizes
    images = [image_of(height, width) for height, width in ((3, 700), (700, 3), (1, 1))]
    for image, found in zip(images, run(module, *images), strict=True):
        columns = image.max(2, keepdims=True) + image.max((2, 3), keepdims=True)
        np.testing.assert_array_equal(found, maximum(maximum(columns)) + image)


def test_of_multiples_of_one_size_the_most_is_taken() -> None:
    def body(emit: Emit, image: Any) -> Any:
        value = image
        for parts in (2, 5, 3, 1):
            value = pooled(emit, emit(relax.op.concat([value] * parts, 1)))
            value = pooled(emit, emit(relax.op.max(value, [1], keepdims=True)))
        return emit(relax.op.add(value, image))

    module = module_of(body)
    sizes = storages(module)
    assert not any(isinstance(size, tirx.Max) for size in sizes), sizes
    image = image_of(5, 9)
    value = image
    for _ in range(4):
        value = maximum(maximum(value).max(1, keepdims=True))
    np.testing.assert_array_equal(run(module, image)[0], value + image)


def test_extents_that_a_reshape_tells_are_known_before_they_are_defined() -> None:
    pixels = tirx.Var("pixels", "int64")
    image = relax.Var("image", relax.TensorType((1, 4, HEIGHT, WIDTH), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [image]):
        first = pooled(builder.emit, image)
        number = builder.emit(relax.op.shape_to_tensor(relax.ShapeExpr([HEIGHT * WIDTH])))
        builder.match_cast(builder.emit(relax.op.tensor_to_shape(number)), relax.ShapeType([pixels]))
        smaller = builder.emit(relax.op.max(pooled(builder.emit, first), [1], keepdims=True))
        row = builder.emit(relax.op.reshape(pooled(builder.emit, smaller), (1, 1, 1, pixels)))
        ended = pooled(builder.emit, pooled(builder.emit, row))
        builder.emit_func_output(builder.emit(relax.op.negative(ended)))
    module = builder.finalize()
    assert not any(pixels in tirx.analysis.undefined_vars(size) for size in storages(module)[:-1])
    image = image_of(5, 9)
    row = maximum(maximum(maximum(image)).max(1, keepdims=True)).reshape(1, 1, 1, -1)
    np.testing.assert_array_equal(run(module, image)[0], -maximum(maximum(row)))


def test_functions_with_branches_are_left() -> None:
    flag = relax.Var("flag", relax.TensorType((), "bool"))
    image = relax.Var("image", relax.TensorType((HEIGHT,), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [flag, image]):
        builder.emit_func_output(builder.emit(relax.If(flag, image, image)))
    module = builder.get()
    assert share_dynamic_storages(module).same_as(module)


@pytest.mark.parametrize("seed", range(24))
def test_any_values_needed_at_any_time(seed: int) -> None:
    """Reproduce with this seed: the steps follow from it."""
    steps = random.Random(seed)
    images = [image_of(*size) for size in ((5, 9), (60, 2), (1, 70))]
    known: list[list[np.ndarray]] = [[image] for image in images]

    def body(emit: Emit, image: Any) -> Any:
        values = [image]
        for _ in range(14):
            place, other = (steps.choice(range(max(0, len(values) - 4), len(values))) for _ in range(2))
            kind = steps.choice(["pool", "rows", "columns", "all", "add", "join"])
            match kind:
                case "pool":
                    values.append(pooled(emit, values[place]))
                case "add":
                    values.append(pooled(emit, emit(relax.op.add(values[place], values[other]))))
                case "join":
                    joined = emit(relax.op.concat([values[place], values[place]], 0))
                    values.append(emit(relax.op.max(pooled(emit, joined), [0], keepdims=True)))
                case _:
                    axes = {"rows": [3], "columns": [2], "all": [2, 3]}[kind]
                    values.append(emit(relax.op.max(values[place], axes, keepdims=True)))
            for each in known:
                each.append(_step(kind, each[place], each[other]))
        last = emit(relax.op.add(values[-1], values[-2]))
        return emit(relax.Tuple([emit(relax.op.add(last, image)), values[5], values[9]]))

    module = module_of(body)
    assert len(storages(module)) < 12, "of 14 values some share a storage"
    for each, found in zip(known, run(module, *images), strict=True):
        for wanted, one in zip((each[-1] + each[-2] + each[0], each[5], each[9]), found, strict=True):
            np.testing.assert_allclose(one, wanted, rtol=1e-6, err_msg=f"seed {seed}")


def _step(kind: str, value: np.ndarray, other: np.ndarray) -> np.ndarray:
    match kind:
        case "pool" | "join":
            return maximum(value)
        case "add":
            return maximum(value + other)
    return value.max({"rows": 3, "columns": 2, "all": (2, 3)}[kind], keepdims=True)
