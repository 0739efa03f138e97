"""What the arithmetic of one step of a register tile takes: multiply-adds, or those of words.

A step multiplies one element or one word of data of each pixel by every vector of weights.
"""

from dataclasses import dataclass

from topi_ext.processor import Processor
from topi_ext.workload import BYTES, ConvolutionWorkload

WEIGHT_HALVES, DATA_HALVES = 4, 2
"""Operations that take a vector of words of weights, and a word of data in all lanes, apart into halves."""

HALVES_LIVE = 3
"""Registers: both halves of a word of data, and the mask of one."""

PAIRS_LIVE = 2
"""Registers: the ones by which pairs are added, and a pair."""

PAIR_OPERATIONS = {16: 3, 32: 2, 64: 3}
"""Of a vector of words whose products are added in pairs, in multiply-adds, by the bytes of a vector: two
multiply, and vectors of 32 bytes have other units that add."""

INTEGERS_PER_FMA = 2
"""Operations on vectors of 32 bytes of integers in the time of one multiply-add. Measured on a Zen 3, with
halves: of 368 kernels of ResNet-18 the choice takes 1.18 times as long as the best, and 1.27 without."""

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


def step_costs(
    workload: ConvolutionWorkload, processor: Processor, accumulators: int, weights: int, pixels: int
) -> StepCosts:
    """Of a tile of so many vectors of sums, vectors of weights, and pixels."""
    latency = processor.fma_latency
    if not workload.word_axis:
        return StepCosts(accumulators / processor.fma_per_cycle, latency)
    if workload.dtype not in BYTES:
        instructions = processor.pair_instructions or WIDENED_PAIR_INSTRUCTIONS
        return StepCosts(accumulators * instructions / processor.fma_per_cycle, processor.pair_latency)
    if not processor.halves_words:
        return StepCosts(accumulators * processor.word_instructions / processor.fma_per_cycle, latency)
    if workload.pairs_fit:
        operations = PAIR_OPERATIONS[processor.vector_bytes]
        return StepCosts(accumulators * operations / processor.fma_per_cycle, latency, PAIRS_LIVE)
    operations = accumulators * processor.word_instructions + WEIGHT_HALVES * weights + DATA_HALVES * pixels
    at_once = processor.fma_per_cycle * (INTEGERS_PER_FMA if processor.vector_bytes == 32 else 1)
    return StepCosts(operations / at_once, latency, weights + HALVES_LIVE)


__all__ = ["StepCosts", "step_costs"]
