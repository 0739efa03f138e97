"""The convolution rule: random convolutions against numpy, and what it leaves to others."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tvm
from kernel_cases import (
    ConvolutionCase,
    convolution_case,
    convolution_case_with_knobs,
    convolution_function,
    run_convolution,
    workload_of,
)
from kernel_harness import (
    Array,
    apply_rules,
    check_kernel,
    compile_function,
    convolution_rule,
    host_cpus,
    integers,
    prim_func,
    scheduled_by,
    target_for,
)
from kernel_networks import WORKLOADS
from kernel_reference import convolve, pack
from tvm import te, tirx, topi
from tvm.target import Target

from topi_ext.compute import conv2d
from topi_ext.errors import RelayLayoutError
from topi_ext.knobs import ConvolutionKnobs
from topi_ext.schedule.cpu.direct import schedule_convolution

CPU = host_cpus()[-1]

BLOCKED: dict[str, Any] = {"data_layout": "NCHW16c", "kernel_layout": "OIHW16i16o", "out_layout": "NCHW16c"}
CHANNELS_LAST: dict[str, Any] = {"data_layout": "NHWC", "kernel_layout": "HWIO", "out_layout": "NHWC"}


@pytest.mark.parametrize("seed", range(120))
def test_random_convolution(seed: int) -> None:
    run_convolution(convolution_case(seed))


@pytest.mark.parametrize("seed", range(1000, 1060))
def test_random_knobs(seed: int) -> None:
    run_convolution(convolution_case_with_knobs(seed))


SWEEP = 50


@pytest.mark.slow
@pytest.mark.parametrize("start", range(10_000, 11_500, SWEEP))
@pytest.mark.parametrize("make", [convolution_case, convolution_case_with_knobs])
def test_sweep(make: Callable[[int], ConvolutionCase], start: int) -> None:
    failures = []
    for seed in range(start, start + SWEEP):
        try:
            run_convolution(make(seed))
        except AssertionError as failure:
            failures.append(str(failure))
    assert not failures, "\n".join(failures)


@pytest.mark.slow
@pytest.mark.parametrize("cpu", host_cpus())
@pytest.mark.parametrize("place", range(len(WORKLOADS)))
def test_convolutions_of_networks(place: int, cpu: str | None) -> None:
    workload = WORKLOADS[place]
    run_convolution(
        ConvolutionCase(
            1,
            workload.in_channels,
            workload.out_channels,
            workload.in_height,
            workload.in_width,
            workload.kernel,
            workload.strides,
            workload.padding,
            groups=workload.groups,
            data_layout=workload.data_layout,
            kernel_layout=workload.kernel_layout,
            out_layout=workload.out_layout,
            epilogue="bias_relu",
            cpu=cpu,
        )
    )


DEPTHWISE_WIDE = ConvolutionCase(1, 5, 5, 4, 70, (3, 3), padding=(1, 1, 1, 1), groups=5)
MIXED_BLOCKS = ConvolutionCase(
    1, 48, 48, 3, 13, (3, 3), padding=(1, 2, 2, 2), groups=48, data_layout="NCHW16c", out_layout="NCHW4c"
)
MULTIPLIED = ConvolutionCase(3, 3, 9, 9, 3, (4, 3), padding=(2, 1, 2, 2), groups=3, **CHANNELS_LAST)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(ConvolutionCase(1, 1, 1, 1, 1, (1, 1)), id="one multiply-add"),
        pytest.param(
            ConvolutionCase(1, 1, 1, 1, 1, (3, 3), padding=(1, 1, 1, 1)), id="padding around one pixel"
        ),
        pytest.param(ConvolutionCase(1, 7, 1, 5, 5, (3, 3), **CHANNELS_LAST), id="one output channel"),
        pytest.param(ConvolutionCase(1, 1, 33, 5, 5, (3, 3), **CHANNELS_LAST), id="one input channel"),
        pytest.param(ConvolutionCase(1, 3, 17, 9, 3, (1, 1)), id="rows shorter than a vector"),
        pytest.param(
            ConvolutionCase(1, 16, 16, 9, 1, (1, 1), groups=4, out_layout="NCHW16c"),
            id="columns of one pixel",
        ),
        pytest.param(ConvolutionCase(1, 24, 58, 5, 5, (1, 1), **CHANNELS_LAST), id="58 channels"),
        pytest.param(ConvolutionCase(1, 5, 255, 3, 3, (1, 1), **CHANNELS_LAST), id="255 channels"),
        pytest.param(
            ConvolutionCase(1, 16, 16, 9, 9, (3, 3), (2, 2), (0, 0, 1, 1), **BLOCKED), id="unused last row"
        ),
        pytest.param(replace(MULTIPLIED, epilogue="bias_add_clip", cores=4), id="multiplier with padding"),
        pytest.param(replace(DEPTHWISE_WIDE, cores=1), id="wide depthwise"),
        pytest.param(
            replace(DEPTHWISE_WIDE, knobs=ConvolutionKnobs(4, 3, 2, pad_at="chunk")),
            id="wide rows padded with a tile of channels that overlaps",
        ),
        pytest.param(
            ConvolutionCase(
                1,
                200,
                200,
                4,
                5,
                (3, 3),
                padding=(1, 1, 1, 1),
                groups=200,
                knobs=ConvolutionKnobs(10, 1, 7, pad_at="chunk"),
                **CHANNELS_LAST,
            ),
            id="many channels padded with a tile that overlaps",
        ),
        *(
            pytest.param(
                replace(MIXED_BLOCKS, knobs=ConvolutionKnobs(4, 3, tile, pad_at="chunk")),
                id=f"{tile} blocks of a tile",
            )
            for tile in (6, 8)
        ),
        pytest.param(
            ConvolutionCase(
                1, 32, 16, 1, 1, (1, 1), data_layout="WC", kernel_layout="OI16o", out_layout="WC"
            ),
            id="vector by matrix",
        ),
    ],
)
@pytest.mark.parametrize("cpu", [*host_cpus(), "baseline"])
def test_degenerate(case: ConvolutionCase, cpu: str) -> None:
    run_convolution(replace(case, cpu=None if cpu == "baseline" else cpu))


STEPS = ConvolutionKnobs(8, 3, 2, steps=4)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(ConvolutionCase(2, 12, 40, 6, 9, (1, 1), knobs=STEPS), id="fused rows"),
        pytest.param(
            ConvolutionCase(
                1, 8, 23, 5, 6, (3, 3), padding=(1, 1, 1, 1), knobs=STEPS, epilogue="bias_add_clip"
            ),
            id="channels that fill no tile",
        ),
        pytest.param(
            ConvolutionCase(
                2,
                4,
                16,
                7,
                11,
                (3, 3),
                padding=(1, 0, 2, 0),
                dilation=(1, 1),
                knobs=replace(STEPS, order="pixels", rows=4, pad_at="chunk"),
            ),
            id="rows padded by chunk",
        ),
        pytest.param(
            ConvolutionCase(1, 20, 16, 9, 10, (2, 3), dilation=(3, 2), knobs=replace(STEPS, tile_pixels=6)),
            id="dilation",
        ),
        pytest.param(
            ConvolutionCase(1, 16, 16, 9, 9, (3, 3), strides=(2, 2), knobs=replace(STEPS, tile_pixels=1)),
            id="single pixels of a stride",
        ),
        pytest.param(
            ConvolutionCase(
                1,
                32,
                24,
                1,
                1,
                (1, 1),
                data_layout="WC",
                kernel_layout="OI8o",
                out_layout="WC",
                knobs=replace(STEPS, tile_pixels=1),
            ),
            id="vector by matrix, in steps",
        ),
    ],
)
def test_data_loaded_as_vectors(case: ConvolutionCase) -> None:
    layouts = {} if case.data_layout == "WC" else CHANNELS_LAST
    run_convolution(replace(case, **layouts))


PARTS = ConvolutionCase(
    2,
    24,
    24,
    9,
    10,
    (3, 3),
    padding=(1, 1, 1, 1),
    groups=24,
    kernel_layout="OIHW8o",
    epilogue="bias_add_clip",
    knobs=ConvolutionKnobs(4, 3, 1, pad_at="chunk"),
    **{name: "NCHW8c" for name in ("data_layout", "out_layout")},
)
"""A depthwise convolution whose blocks are computed half by half."""


@pytest.mark.parametrize(
    "case",
    [
        PARTS,
        replace(PARTS, strides=(2, 2), dilation=(1, 2), knobs=ConvolutionKnobs(4, 2, 1, rows=5)),
        replace(PARTS, knobs=ConvolutionKnobs(2, 10, 1, order="pixels", rows=3, pad_at="chunk")),
        replace(
            PARTS,
            in_channels=48,
            out_channels=48,
            groups=48,
            data_layout="NCHW4c",
            out_layout="NCHW16c",
            kernel_layout="OIHW",
            epilogue="bias_relu",
            knobs=ConvolutionKnobs(4, 7, 1, parallel=False),
        ),
    ],
    ids=["padded by chunk", "strides and dilation", "single rows", "other blocks of the data"],
)
def test_blocks_in_parts(case: ConvolutionCase) -> None:
    run_convolution(case)


def test_a_symbolic_batch_is_one_function_for_all() -> None:
    case = ConvolutionCase(
        1,
        16,
        32,
        7,
        7,
        (3, 3),
        padding=(1, 1, 1, 1),
        epilogue="bias_add_clip",
        symbolic_batch=True,
        cpu=CPU,
        **BLOCKED,
    )
    for batch in (1, 2, 5):
        run_convolution(replace(case, batch=batch))


@pytest.mark.parametrize(
    ("dtype", "out_dtype"), [("int8", "int32"), ("float64", "float64"), ("float16", "float32")]
)
@pytest.mark.parametrize("layouts", [BLOCKED, CHANNELS_LAST, {}], ids=["NCHW16c", "NHWC", "NCHW"])
def test_dtypes(layouts: dict[str, Any], dtype: str, out_dtype: str) -> None:
    data_layout, kernel_layout = layouts.get("data_layout", "NCHW"), layouts.get("kernel_layout", "OIHW")
    rng = np.random.default_rng(3)
    data, weight = integers(rng, (1, 32, 5, 6), dtype), integers(rng, (48, 32, 3, 3), dtype)
    inputs = [pack(data, "NCHW", data_layout), pack(weight, "OIHW", kernel_layout)]
    tensors = [te.placeholder(array.shape, dtype) for array in inputs]
    func = prim_func([*tensors, conv2d(*tensors, padding=(1, 1, 1, 1), out_dtype=out_dtype, **layouts)])
    scheduled_by(convolution_rule(target_for(CPU)), func, target_for(CPU))
    expected = pack(convolve(data, weight, padding=(1, 1, 1, 1)), "NCHW", layouts.get("out_layout", "NCHW"))
    check_kernel(func, target_for(CPU), inputs, expected.astype(out_dtype))


Surrounded = tuple[list[te.Tensor], list[Array], Array]


def surroundings(kind: str) -> Surrounded:
    """A convolution among other blocks: the function's tensors, its inputs, and what comes out."""
    rng = np.random.default_rng(5)
    data, weight = integers(rng, (1, 32, 7, 9)), integers(rng, (48, 32, 3, 3))
    inputs = [pack(data, "NCHW", "NCHW16c"), pack(weight, "OIHW", "OIHW16i16o")]
    image, kernel = (
        te.placeholder(array.shape, name=name)
        for array, name in zip(inputs, ("image", "kernel"), strict=True)
    )
    geometry = {"padding": (1, 1, 1, 1), **BLOCKED}
    before = np.maximum(data, 0) if kind.startswith("relu") else data
    expected = convolve(before, weight, padding=(1, 1, 1, 1)).astype("float32")
    if kind == "relu before":
        out = conv2d(topi.nn.relu(image), kernel, **geometry)
    elif kind == "relu before, no padding":
        out = conv2d(topi.nn.relu(image), kernel, **BLOCKED)
        expected = convolve(before, weight).astype("float32")
    elif kind == "weights packed inside":
        inputs[1] = weight
        kernel = te.placeholder(weight.shape, name="kernel")
        packed = te.compute(
            (3, 2, 3, 3, 16, 16),
            lambda o, i, h, w, ii, oo: kernel[o * 16 + oo, i * 16 + ii, h, w],
            name="packed",
        )
        out = conv2d(image, packed, **geometry)
    else:
        result = conv2d(image, kernel, **geometry)
        return _followed(kind, [image, kernel], inputs, result, expected)
    return [image, kernel, out], inputs, pack(expected, "NCHW", "NCHW16c")


def _followed(
    kind: str, tensors: list[te.Tensor], inputs: list[Array], result: te.Tensor, expected: Array
) -> Surrounded:
    """``expected`` is in NCHW."""
    packed = pack(expected, "NCHW", "NCHW16c")
    shape = packed.shape
    if kind == "layout transform after":
        out = te.compute(expected.shape, lambda n, c, h, w: topi.nn.relu(result)[n, c // 16, h, w, c % 16])
        return [*tensors, out], inputs, np.maximum(expected, 0)
    if kind == "flattened":
        return (
            [*tensors, topi.reshape(topi.nn.relu(result), (packed.size,))],
            inputs,
            np.maximum(packed, 0).ravel(),
        )
    if kind == "concatenated":
        other = integers(np.random.default_rng(6), shape)
        tensor = te.placeholder(shape, name="other")
        joined = np.concatenate([packed, other], axis=1)
        return [*tensors, tensor, topi.concatenate([result, tensor], axis=1)], [*inputs, other], joined
    if kind == "mirrored":
        out = te.compute(shape, lambda n, c, h, w, i: result[n, c, h, w, i] + result[n, c, h, 8 - w, i])
        return [*tensors, out], inputs, packed + packed[:, :, :, ::-1]
    if kind == "summed":
        return [*tensors, topi.sum(result, axis=(2, 3))], inputs, packed.sum(axis=(2, 3))
    if kind == "every second pixel":
        out = te.compute((1, 3, 4, 5, 16), lambda n, c, h, w, i: result[n, c, h * 2, w * 2, i])
        return [*tensors, out], inputs, packed[:, :, ::2, ::2]
    assert kind == "second convolution"
    weight = integers(np.random.default_rng(7), (16, 48, 1, 1))
    tensor = te.placeholder((1, 3, 1, 1, 16, 16), name="second")
    out = conv2d(topi.nn.relu(result), tensor, **BLOCKED)
    again = convolve(np.maximum(expected, 0), weight).astype("float32")
    return (
        [*tensors, tensor, out],
        [*inputs, pack(weight, "OIHW", "OIHW16i16o")],
        pack(again, "NCHW", "NCHW16c"),
    )


@pytest.mark.parametrize(
    "kind",
    [
        "relu before",
        "relu before, no padding",
        "weights packed inside",
        "layout transform after",
        "flattened",
        "concatenated",
        "mirrored",
        "summed",
        "every second pixel",
        "second convolution",
    ],
)
def test_what_else_the_function_holds_is_right_too(kind: str) -> None:
    tensors, inputs, expected = surroundings(kind)
    func = prim_func(tensors)
    scheduled_by(convolution_rule(target_for(CPU)), func, target_for(CPU))
    check_kernel(func, target_for(CPU), inputs, expected, case=kind)


def test_two_results_of_one_convolution() -> None:
    """Neither may see accumulators that another thread is still adding to."""
    case = ConvolutionCase(1, 32, 48, 9, 13, (3, 3), padding=(1, 1, 1, 1), cpu=CPU, **BLOCKED)
    _, inputs, expected = convolution_function(case)
    data, weight = (te.placeholder(array.shape) for array in inputs)
    result = conv2d(data, weight, padding=case.padding, **BLOCKED)
    both = prim_func([data, weight, result, topi.nn.relu(result)])
    scheduled = scheduled_by(convolution_rule(target_for(CPU)), both, target_for(CPU)).mod["main"]
    library = compile_function(scheduled, target_for(CPU))
    for _ in range(20):
        arguments = [tvm.runtime.tensor(array) for array in (*inputs, expected * 0, expected * 0)]
        library["main"](*arguments)
        np.testing.assert_array_equal(arguments[2].numpy(), expected)
        np.testing.assert_array_equal(arguments[3].numpy(), np.maximum(expected, 0))


@pytest.mark.parametrize("extent", ["height", "width"])
def test_symbolic_images_go_to_the_next_rule(extent: str) -> None:
    height = tirx.Var("h", "int64") if extent == "height" else 6
    width = tirx.Var("w", "int64") if extent == "width" else 6
    rng = np.random.default_rng(0)
    data, weight = integers(rng, (1, 16, 6, 6)), integers(rng, (16, 16, 3, 3))
    tensors = [te.placeholder((1, 1, height, width, 16)), te.placeholder((1, 1, 3, 3, 16, 16))]
    func = prim_func([*tensors, conv2d(*tensors, padding=(1, 1, 1, 1), **BLOCKED)], "int64")
    rule, _ = apply_rules(func, target_for(CPU))
    assert rule == "LoopNest"
    inputs = [pack(data, "NCHW", "NCHW16c"), pack(weight, "OIHW", "OIHW16i16o")]
    expected = pack(convolve(data, weight, padding=(1, 1, 1, 1)), "NCHW", "NCHW16c").astype("float32")
    check_kernel(func, target_for(CPU), inputs, expected)


def test_other_functions_and_targets_are_not_taken() -> None:
    data = te.placeholder((4, 4))
    plain = prim_func([data, topi.nn.relu(data)])
    assert convolution_rule(target_for(CPU)).apply(plain, target_for(CPU), False) is None
    func, _, _ = convolution_function(ConvolutionCase(1, 16, 16, 4, 4, (3, 3), **BLOCKED))
    assert convolution_rule(target_for(CPU)).apply(func, Target("c"), False) is None


def test_knobs_that_do_not_fit_never_reach_the_loops() -> None:
    func, _, _ = convolution_function(ConvolutionCase(1, 16, 16, 4, 4, (3, 3), **BLOCKED))
    with pytest.raises(RelayLayoutError, match="tile of 5 pixels on a run of 2"):
        schedule_convolution(func, workload_of(func), ConvolutionKnobs(16, 5, 1))
