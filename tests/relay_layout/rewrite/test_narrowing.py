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
    builder = relax.BlockBuilder()
    with builder.function("main", [data] if constant else [data, parameter]):
        with builder.dataflow():
            layout = f"N{letters}C" if channels_last else f"NC{letters}"
            by = relax.const(weight) if constant else parameter
            call = operator(data, by, data_layout=layout, groups=groups, **attributes)
            result = builder.emit_output(call)
        builder.emit_func_output(result)
    return builder.finalize()


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
