"""Which kernels run on the caller's thread alone, because there is too little to do."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from kernel_harness import apply_rules, check_kernel, host_cpus, integers, prim_func, target_for
from kernel_networks import workload_for
from kernel_reference import convolve, pack
from tvm import te, tirx, topi

from topi_ext.compute import Pooling, max_pool2d, transcendental
from topi_ext.ir import nodes_of
from topi_ext.kernel import kernel_function, schedule
from topi_ext.knobs import ConvolutionKnobs
from topi_ext.machine.processor import Processor, processor_of
from topi_ext.spaces.convolution import cheapest

TARGET = target_for(host_cpus()[-1])
AVX512 = processor_of(target_for("x86-64-v4"))


def starts_threads(func: tirx.PrimFunc) -> bool:
    return any(loop.kind == tirx.ForKind.PARALLEL for loop in nodes_of(func.body, tirx.For))


def pooled(data: te.Tensor) -> te.Tensor:
    batch, channels, height, width, block = (int(extent) for extent in data.shape)
    pooling = Pooling((2, 2), strides=(2, 2), layout="NCHW16c")
    return max_pool2d(data, pooling, (batch, channels, height // 2, width // 2, block))


@pytest.mark.parametrize(
    ("operator", "little", "much"),
    [
        (topi.nn.relu, (1, 4096), (64, 4096)),
        (topi.log, (1, 256), (1, 4096)),
        (lambda data: topi.nn.pad(data, (0, 1, 1, 0), (0, 1, 1, 0)), (1, 16, 16, 16), (1, 112, 112, 64)),
        (transcendental.sigmoid, (1, 1000), (1, 16384)),
        (lambda data: transcendental.softmax(data, 1), (1, 64), (64, 1000)),
        (lambda data: topi.transpose(data, (0, 2, 1)), (1, 16, 64), (1, 256, 196)),
        (lambda data: topi.sum(data, axis=(1, 2)), (1, 7, 7, 16), (1, 112, 112, 64)),
        (lambda data: topi.sum(data, axis=(2, 3)), (1, 16, 7, 7), (1, 512, 14, 14)),
        (pooled, (1, 1, 6, 6, 16), (1, 4, 56, 56, 16)),
    ],
)
def test_threads_are_for_much_work(
    operator: Callable[[te.Tensor], te.Tensor], little: tuple[int, ...], much: tuple[int, ...]
) -> None:
    found = []
    for shape in (little, much):
        data = te.placeholder(shape, "float32")
        found.append(starts_threads(apply_rules(prim_func([data, operator(data)]), TARGET)[1].mod["main"]))
    assert found == [False, True]


def test_what_is_written_twice_is_counted_once() -> None:
    """An expression that is a graph would be exponentially many operations as a tree."""

    def chain(data: te.Tensor) -> te.Tensor:
        def element(place: Any) -> Any:
            value = data[place]
            for _ in range(12):
                value = value + value
            return value

        return te.compute(data.shape, element)

    data = te.placeholder((4096,), "float32")
    assert not starts_threads(apply_rules(prim_func([data, chain(data)]), TARGET)[1].mod["main"])


def defaults(workload: Any, processor: Processor = AVX512) -> ConvolutionKnobs:
    knobs = cheapest(workload, processor)[1]
    assert isinstance(knobs, ConvolutionKnobs)
    return knobs


@pytest.mark.parametrize(
    ("extents", "parallel"),
    [((96, 16, 1, 1, 1, 1), False), ((16, 96, 1, 1, 1, 1), False), ((64, 64, 56, 1, 1, 1), True)],
)
def test_default_kernels_of_little_work_start_no_threads(extents: Any, parallel: bool) -> None:
    workload = workload_for(extents, "NCHW16c", "OIHW16i16o", "NCHW16c")
    knobs = defaults(workload)
    assert knobs.parallel == parallel
    assert starts_threads(schedule(kernel_function(workload, knobs), workload, knobs).mod["main"]) == parallel


def test_starting_threads_costs_what_the_processor_says() -> None:
    workload = workload_for((64, 64, 14, 1, 1, 1), "NCHW16c", "OIHW16i16o", "NCHW16c")
    chosen = [
        defaults(workload, replace(AVX512, launch_cycles=cycles)).parallel for cycles in (0.0, 10_000_000.0)
    ]
    assert chosen == [True, False]


@pytest.mark.parametrize("pad_at", ["stage", "chunk"])
def test_a_kernel_of_one_thread_is_right(pad_at: Any) -> None:
    rng = np.random.default_rng(3)
    data, weight = integers(rng, (1, 32, 7, 7)), integers(rng, (16, 32, 3, 3))
    workload = workload_for((32, 16, 7, 3, 1, 1), "NCHW16c", "OIHW16i16o", "NCHW16c")
    knobs = ConvolutionKnobs(16, 3, 1, pad_at=pad_at, prefetch=False, parallel=False)
    bias = integers(rng, (1, 1, 1, 1, 16))
    expected = pack(convolve(data, weight, padding=workload.padding), "NCHW", "NCHW16c") + bias
    func = kernel_function(workload, knobs)
    scheduled = schedule(func, workload, knobs)
    assert not starts_threads(scheduled.mod["main"])
    check_kernel(
        func,
        TARGET,
        [pack(data, "NCHW", "NCHW16c"), pack(weight, "OIHW", "OIHW16i16o"), bias],
        np.maximum(expected, 0).astype("float32"),
        schedule=lambda func, target: scheduled,
    )
