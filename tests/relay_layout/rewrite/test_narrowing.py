"""Kernels lose what meets padding alone, and nothing else."""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_layout.ir import operator_name
from relay_layout.rewrite.canonicalize import canonicalize
from tests.relax_modules import module_giving

OPERATORS = {1: ("W", relax.op.nn.conv1d), 2: ("HW", relax.op.nn.conv2d), 3: ("DHW", relax.op.nn.conv3d)}


def convolution(
    image: Sequence[Any],
    kernel: Sequence[int],
    *,
    channels_last: bool = False,
    constant: bool = True,
    groups: int = 1,
    **attributes: Any,
) -> tvm.IRModule:
    """One image of four channels; four results."""
    letters, operator = OPERATORS[len(kernel)]
    shape = [1, *image, 4] if channels_last else [1, 4, *image]
    window = [4, 4 // groups, *kernel]
    weight = np.random.default_rng(0).integers(-3, 4, window).astype("float32")
    data = relax.Var("data", relax.TensorType(shape, "float32"))
    parameter = relax.Var("weight", relax.TensorType(window, "float32"))
    layout = f"N{letters}C" if channels_last else f"NC{letters}"
    by = relax.const(weight) if constant else parameter
    call = operator(data, by, data_layout=layout, groups=groups, **attributes)
    return module_giving(call, *[data] if constant else [data, parameter])


def call_of(module: tvm.IRModule) -> relax.Call:
    values = [binding.value for block in module["main"].body.blocks for binding in block.bindings]
    (call,) = [value for value in values if "conv" in operator_name(value)]
    return call


def kernel_of(module: tvm.IRModule) -> list[int]:
    return [int(extent) for extent in call_of(module).args[1].ty.shape.values][2:]


@pytest.mark.parametrize(
    ("dilation", "kernel", "padding"), [(13, [3, 3], 13), (14, [1, 1], 0), (24, [1, 1], 0), (36, [1, 1], 0)]
)
def test_a_kernel_that_reaches_beyond_its_image(dilation: int, kernel: list[int], padding: int) -> None:
    module = canonicalize(convolution((14, 14), (3, 3), padding=dilation, dilation=dilation))
    assert kernel_of(module) == kernel
    assert [int(pad) for pad in call_of(module).attrs.padding] == [padding] * 4
    assert [int(step) for step in call_of(module).attrs.dilation] == [13 if kernel == [3, 3] else 1] * 2


def test_each_axis_is_narrowed_on_its_own() -> None:
    module = canonicalize(convolution((20, 5), (3, 3), padding=8, dilation=8))
    assert kernel_of(module) == [3, 1]
    assert [int(pad) for pad in call_of(module).attrs.padding] == [8, 0, 8, 0]


@pytest.mark.parametrize(
    "module",
    [
        convolution((tvm.tirx.Var("h", "int64"), 5), (3, 1), padding=[14, 0], dilation=14),
        convolution((14, 14), (3, 3), padding=14, dilation=14, constant=False),
    ],
    ids=["an extent that is not known", "weights that are not known"],
)
def test_what_stays(module: tvm.IRModule) -> None:
    assert kernel_of(canonicalize(module))[0] == 3


def random_case(seed: int) -> dict[str, Any]:
    rng = random.Random(seed)
    rank = rng.choice([1, 2, 2, 3])
    while True:
        image = [rng.randint(1, 7) for _ in range(rank)]
        kernel = [rng.randint(1, 4) for _ in range(rank)]
        dilation = [rng.randint(1, 9) for _ in range(rank)]
        strides = [rng.randint(1, 3) for _ in range(rank)]
        padding = [rng.randint(0, 12) for _ in range(2 * rank)]
        reach = [step * (taps - 1) + 1 for step, taps in zip(dilation, kernel, strict=True)]
        padded = [extent + padding[axis] + padding[rank + axis] for axis, extent in enumerate(image)]
        if all(have >= need for have, need in zip(padded, reach, strict=True)):
            break
    return {
        "image": image,
        "kernel": kernel,
        "dilation": dilation,
        "strides": strides,
        "padding": padding,
        "channels_last": rank == 2 and rng.random() < 0.4,
        "groups": rng.choice([1, 1, 2, 4]),
    }


def run(module: tvm.IRModule, image: np.ndarray) -> np.ndarray:
    executable = tvm.compile(module, tvm.target.Target({"kind": "llvm", "opt-level": 0}))
    return relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(image)).numpy()


@pytest.mark.parametrize("seed", range(60))
def test_results_stay_the_same(seed: int) -> None:
    case = random_case(seed)
    module = convolution(**case)
    shape = [int(extent) for extent in module["main"].params[0].ty.shape.values]
    image = np.random.default_rng(seed).integers(-4, 5, shape).astype("float32")
    np.testing.assert_array_equal(run(canonicalize(module), image), run(module, image), err_msg=f"{case!r}")


def test_random_cases_are_narrowed_often() -> None:
    smaller = sum(
        kernel_of(canonicalize(convolution(**case))) != case["kernel"] for case in map(random_case, range(60))
    )
    assert smaller > 10


POOLINGS = {
    ("avg", 1): relax.op.nn.avg_pool1d,
    ("avg", 2): relax.op.nn.avg_pool2d,
    ("avg", 3): relax.op.nn.avg_pool3d,
    ("max", 1): relax.op.nn.max_pool1d,
    ("max", 2): relax.op.nn.max_pool2d,
    ("max", 3): relax.op.nn.max_pool3d,
}


def pooling(kind: str, image: Sequence[Any], size: Sequence[int], **attributes: Any) -> tvm.IRModule:
    data = relax.Var("data", relax.TensorType([1, 2, *image], "float32"))
    return module_giving(POOLINGS[kind, len(size)](data, size, **attributes), data)


def window_of(module: tvm.IRModule) -> tuple[list[int], list[int]]:
    attributes = module["main"].body.blocks[0].bindings[0].value.attrs
    return [int(size) for size in attributes.pool_size], [int(step) for step in attributes.strides]


def test_a_pooling_window_far_larger_than_its_image() -> None:
    module = pooling("avg", (9, 7), (2560, 2560), strides=(2560, 2560), ceil_mode=True)
    assert window_of(canonicalize(module)) == ([9, 7], [9, 7])


def test_a_pooling_window_is_cut_along_the_axes_that_it_exceeds() -> None:
    module = pooling("max", (6, 20), (9, 9), strides=(4, 4), padding=(1, 1, 1, 1), ceil_mode=True)
    assert window_of(canonicalize(module)) == ([8, 9], [8, 4])


@pytest.mark.parametrize(
    "module",
    [
        pooling("max", (tvm.tirx.Var("h", "int64"), 9), (12, 3), strides=(12, 3), ceil_mode=True),
        pooling("max", (9, 9), (3, 3), strides=(2, 2), ceil_mode=True),
        pooling("max", (9, 9), (9, 9), strides=(2, 2), ceil_mode=False),
    ],
    ids=["an extent that is not known", "a window within its image", "a window that fits"],
)
def test_poolings_that_stay(module: tvm.IRModule) -> None:
    assert window_of(canonicalize(module)) == window_of(module)


def random_pooling(seed: int) -> dict[str, Any]:
    """A pooling of which each axis has at least one window, most of them longer than the axis."""
    rng = random.Random(seed)
    rank = rng.choice([1, 2, 2, 3])
    axes = []
    while len(axes) < rank:
        extent, size, step = rng.randint(1, 6), rng.randint(1, 9), rng.randint(1, 3)
        before, after, stride = rng.randint(0, 2), rng.randint(0, 2), rng.randint(1, 9)
        # PyTorch and ONNX pad by less than a window, so that each window has an element of the image.
        meets = max(before, after) < (size if step == 1 else min(size, extent))
        if meets and step * (size - 1) + 1 < extent + before + after + stride:
            axes.append((extent, size, step, before, after, stride))
    image, size, dilation, before, after, strides = (list(numbers) for numbers in zip(*axes, strict=True))
    return {
        "kind": rng.choice(["avg", "max"]),
        "image": image,
        "size": size,
        "dilation": dilation,
        "padding": before + after,
        "strides": strides,
        "ceil_mode": True,
    } | ({"count_include_pad": True} if rng.random() < 0.3 else {})


@pytest.mark.parametrize("seed", range(60))
def test_pooled_results_stay_the_same(seed: int) -> None:
    case = random_pooling(seed)
    if case["kind"] == "max":
        case.pop("count_include_pad", None)
    module = pooling(**case)
    shape = [int(extent) for extent in module["main"].params[0].ty.shape.values]
    image = np.random.default_rng(seed).integers(-4, 5, shape).astype("float32")
    np.testing.assert_allclose(
        run(canonicalize(module), image), run(module, image), rtol=1e-6, err_msg=f"{case!r}"
    )


def test_random_poolings_are_narrowed_often() -> None:
    changed = 0
    for seed in range(60):
        case = random_pooling(seed)
        case.pop("count_include_pad", None)
        changed += window_of(canonicalize(pooling(**case)))[0] != case["size"]
    assert changed > 10
