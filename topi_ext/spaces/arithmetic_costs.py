"""What the arithmetic of one step of a register tile takes: multiply-adds, or those of words.

A step multiplies one element or one word of data of each pixel by every vector of weights.
"""

from dataclasses import dataclass

from topi_ext.processor import Processor
from topi_ext.workload import BYTES, WIDENED, ConvolutionWorkload

PAIRS_LIVE, WIDE_LIVE = 2, 1
"""Registers: the ones by which pairs are added, and a pair; a product of two int16."""

PAIR_OPERATIONS = {16: 3, 32: 2, 64: 3}
"""Of a vector of words whose products are added in pairs, in multiply-adds, by the bytes of a vector: two
multiply, and vectors of 32 bytes have other units that add."""

WIDE_OPERATIONS = {16: 2, 32: 1, 64: 2}
"""Of a vector of words of two int16, in multiply-adds: one multiplies and one adds, as of pairs."""

LONG_PRODUCTS = 2
"""Instructions that multiply the bytes of four words to int16."""

LONG_SUMS, FITTING_LONG_SUMS = 2, 1
"""Those that add such products to int32: each, or both at once where they fit into int16."""

WIDENED_PAIR_INSTRUCTIONS = 4
"""For a vector of pairs of bfloat16 where no instruction multiplies them: halves of words become float32
first."""


@dataclass(frozen=True)
class StepCosts:
    """Of one step: cycles of throughput and of latency, and ``registers`` that it needs beside accumulators,
    a vector of each stream of weights, and data.
    """

    cycles: float
    latency: float
    registers: int = 0


def multiplies_long(workload: ConvolutionWorkload, processor: Processor) -> bool:
    """Are its words of bytes multiplied to int16 (:attr:`topi_ext.processor.Processor.long_products`)?"""
    return processor.long_products and workload.dtype in BYTES and bool(workload.word_axis)


def step_costs(
    workload: ConvolutionWorkload, processor: Processor, accumulators: int, vector_bytes: int
) -> StepCosts:
    """Of a tile of so many vectors of sums, each of ``vector_bytes`` at most."""
    latency = processor.fma_latency
    per_cycle = processor.fma_per_cycle / processor.passes(vector_bytes)
    if not workload.word_axis:
        return StepCosts(accumulators / per_cycle, latency)
    if workload.dtype == WIDENED:
        operations = WIDE_OPERATIONS[processor.vector_bytes]
        return StepCosts(accumulators * operations / per_cycle, latency, WIDE_LIVE)
    if workload.dtype not in BYTES:
        instructions = processor.pair_instructions or WIDENED_PAIR_INSTRUCTIONS
        return StepCosts(accumulators * instructions / per_cycle, processor.pair_latency)
    if workload.pairs_fit and processor.wide_words:
        operations = PAIR_OPERATIONS[processor.vector_bytes]
        return StepCosts(accumulators * operations / per_cycle, latency, PAIRS_LIVE)
    if multiplies_long(workload, processor):
        operations = LONG_PRODUCTS + (FITTING_LONG_SUMS if workload.pairs_fit else LONG_SUMS)
        cycles = max(LONG_PRODUCTS / processor.fma_per_cycle, operations / processor.operations_per_cycle)
        return StepCosts(accumulators * cycles, latency)
    return StepCosts(accumulators * processor.word_instructions / per_cycle, latency)


__all__ = ["LONG_PRODUCTS", "StepCosts", "multiplies_long", "step_costs"]
