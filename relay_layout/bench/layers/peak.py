"""The multiply-add peak of a machine, measured with a kernel that does nothing else."""

from __future__ import annotations

from typing import Any

from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

CHAINS = 12
"""Sums that do not wait for each other: more than latency times rate, fewer than there are registers."""

STEPS = 400_000
"""Some 1.5 ms on a processor of today: starting the threads takes a few microseconds of that."""


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


def peak_operations(threads: int, lanes: int, steps: int) -> int:
    """Multiplications and additions of one call, two for each multiply-add."""
    return 2 * threads * CHAINS * lanes * steps


__all__ = ["CHAINS", "STEPS", "peak_kernel", "peak_operations"]
