"""The cost of the arithmetic in one step of a register tile, for multiply-adds and for dot products of words.

A step multiplies one element, or one word, of the data of each pixel by every vector of weights.
"""

from dataclasses import dataclass

from topi_ext.machine.processor import Processor
from topi_ext.workloads.convolution import BYTES, WIDENED, ConvolutionWorkload

PAIRS_LIVE, WIDE_LIVE = 2, 1
"""Extra live registers: for sums of pairs a vector of ones and a pair; for products of int16 one product."""

PAIR_OPERATIONS = {16: 3, 32: 2, 64: 3}
"""The cost of a vector of words by VPMADDUBSW and VPMADDWD, in multiply-adds, by the bytes of a vector: two
instructions multiply and one adds, for which vectors of 32 bytes have a further unit."""

WIDE_OPERATIONS = {16: 2, 32: 1, 64: 2}
"""The same for words of two int16: one instruction multiplies, and one adds."""

LONG_PRODUCTS = 2
"""Instructions that multiply the bytes of four words, giving int16."""

LONG_SUMS, FITTING_LONG_SUMS = 2, 1
"""Instructions that add these products to int32: two, or one where sums of two products fit int16."""

WIDENED_PAIR_INSTRUCTIONS = 4
"""Instructions for a vector of pairs of bfloat16 without a dot product: both halves are widened to float32
and multiplied."""


@dataclass(frozen=True)
class StepCosts:
    """The cost of one step: cycles by throughput and by latency, and extra live registers.

    ``registers`` counts those besides accumulators, one vector of each stream of weights, and data.
    """

    cycles: float
    latency: float
    registers: int = 0


def multiplies_long(workload: ConvolutionWorkload, processor: Processor) -> bool:
    """Are words of bytes multiplied to int16 (:attr:`topi_ext.machine.processor.Processor.long_products`)?"""
    return processor.long_products and workload.dtype in BYTES and bool(workload.word_axis)


def step_costs(
    workload: ConvolutionWorkload, processor: Processor, accumulators: int, vector_bytes: int
) -> StepCosts:
    """The cost of a step of a tile of ``accumulators`` vectors, each of at most ``vector_bytes``."""
    latency = processor.fma_latency
    per_cycle = processor.fma_per_cycle / processor.passes(vector_bytes)
    if not workload.word_axis:
        return StepCosts(accumulators / per_cycle, latency)
    if workload.dtype == WIDENED:
        operations = WIDE_OPERATIONS[processor.vector_bytes]
        return StepCosts(accumulators * operations / per_cycle, latency, WIDE_LIVE)
    if workload.dtype not in BYTES:
        instructions = processor.bfloat16_instructions or WIDENED_PAIR_INSTRUCTIONS
        return StepCosts(accumulators * instructions / per_cycle, processor.bfloat16_latency)
    if workload.pairs_fit and processor.wide_words:
        operations = PAIR_OPERATIONS[processor.vector_bytes]
        return StepCosts(accumulators * operations / per_cycle, latency, PAIRS_LIVE)
    if multiplies_long(workload, processor):
        operations = LONG_PRODUCTS + (FITTING_LONG_SUMS if workload.pairs_fit else LONG_SUMS)
        cycles = max(LONG_PRODUCTS / processor.fma_per_cycle, operations / processor.operations_per_cycle)
        return StepCosts(accumulators * cycles, latency)
    return StepCosts(accumulators * processor.word_instructions / per_cycle, latency)
