"""The multiply-add peak of a machine, measured with a kernel that does nothing else."""

import time
from typing import Any

import numpy as np
import tvm
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from relay_layout.runtime.threads import set_threads
from relay_layout.targets import require_cpu, resolve_target
from topi_ext.codegen.build import compile_kernel

CHAINS = 12
"""Sums that do not wait for each other: more than latency times rate, fewer than there are registers."""

STEPS = 400_000
"""Some 1.5 ms on a processor of today: starting the threads takes a few microseconds of that."""

_RUNS = 100


def peak_kernel(threads: int, lanes: int, steps: int) -> Any:
    """Loops in which every thread keeps its vectors in registers, from the first step to the last.

    Parameters, all float32: start [threads, CHAINS, lanes], factor [lanes] and result, shaped like start.
    Each step replaces every sum by itself times the factor plus the factor: one fused multiply-add.
    """
    shape = (threads, CHAINS, lanes)
    with IRBuilder() as builder:
        with T.prim_func():
            start = T.arg("start", T.buffer(shape, "float32"))
            factor = T.arg("factor", T.buffer((lanes,), "float32"))
            result = T.arg("result", T.buffer(shape, "float32"))
            with T.parallel(threads) as thread:
                sums = T.alloc_buffer(shape[1:], "float32", scope="local")
                with T.unroll(CHAINS) as chain, T.vectorized(lanes) as lane:
                    T.buffer_store(sums, start[thread, chain, lane], [chain, lane])
                with T.serial(steps), T.unroll(CHAINS) as chain, T.vectorized(lanes) as lane:
                    value = sums[chain, lane] * factor[lane] + factor[lane]
                    T.buffer_store(sums, value, [chain, lane])
                with T.unroll(CHAINS) as chain, T.vectorized(lanes) as lane:
                    T.buffer_store(result, sums[chain, lane], [thread, chain, lane])
        return builder.get()


def peak_arguments(threads: int, lanes: int) -> tuple[tvm.runtime.Tensor, ...]:
    """Start, factor and result for :func:`peak_kernel`."""
    start = np.random.default_rng(0).random((threads, CHAINS, lanes), np.float32)
    # The sums go to one: nothing that overflows, or is too small to be a normal number.
    factor = np.full(lanes, 0.5, np.float32)
    return *map(tvm.runtime.tensor, (start, factor)), tvm.runtime.empty(start.shape, "float32")


def peak_operations(threads: int, lanes: int, steps: int) -> int:
    """Multiplications and additions of one call, two for each multiply-add."""
    return 2 * threads * CHAINS * lanes * steps


def measure_peak(threads: int) -> float:
    """What ``threads`` of this machine multiply and add in float32 at most, in 1e9 operations a second."""
    target = require_cpu(resolve_target(threads=threads))
    lanes = target.processor.lanes(4)
    kernel = compile_kernel(peak_kernel(threads, lanes, STEPS), target.tvm_target)["main"]
    arguments = peak_arguments(threads, lanes)
    set_threads(threads)
    quickest = float("inf")
    for _ in range(_RUNS):
        began = time.perf_counter()
        kernel(*arguments)
        quickest = min(quickest, time.perf_counter() - began)
    return peak_operations(threads, lanes, STEPS) / quickest / 1e9
