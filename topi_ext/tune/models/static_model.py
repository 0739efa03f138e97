"""How long a kernel takes on a processor that is not here, from its machine code and its traffic.

The loop that multiplies is analysed with the core's scheduling model; around it are the stores of a tile,
entering the loop, and what moves between caches and memory.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import tvm
from tvm import tirx

from topi_ext.codegen import neon_matrices
from topi_ext.compute.convolution import reduction_axes
from topi_ext.compute.geometry import reduction_block
from topi_ext.errors import RelayLayoutError
from topi_ext.kernel import EPILOGUE_OPERATIONS, scheduled_kernel
from topi_ext.knobs import ConvolutionKnobs, Knobs, WinogradKnobs
from topi_ext.machine.processor import Processor
from topi_ext.messages import last_line
from topi_ext.spaces.arithmetic_costs import LONG_PRODUCTS, multiplies_long
from topi_ext.spaces.direct import vector_axes
from topi_ext.spaces.direct_costs import imbalance
from topi_ext.spaces.register_tile import MOST_UNROLLED
from topi_ext.spaces.winograd import WinogradLoops, winograd_cycles
from topi_ext.tune.measuring import workers
from topi_ext.tune.measuring.measurement import Measurement
from topi_ext.tune.models.assembly import Loop, hot_loop, innermost_loops
from topi_ext.tune.models.machine_code import Analysis, analyse, analyser, loop_cycles
from topi_ext.tune.models.traffic import direct_traffic, tiles_of
from topi_ext.workloads.convolution import ConvolutionWorkload

ENTRY_CYCLES = 8.0
"""Leaving a loop and entering it again: a branch that is predicted wrongly, and an empty pipeline."""

TILE_CYCLES, ACCUMULATOR_CYCLES = 12.0, 2.0
"""Cycles around a register tile for its address, and for each accumulator to start, finish and store it."""

SPILL_PENALTY = 1.25
"""For loops that spill: the analyser lets every reload hit, and a kernel without any is the safer choice."""

OVERLAP = 0.75
"""Share of the shorter of computing and moving that the longer one hides."""


class KernelModel:
    """A measurer (:class:`topi_ext.tune.measuring.measurement.Measurer`) that compiles kernels and runs none.

    ``gigahertz`` is the processor's clock. Raises RelayLayoutError where the analyser is missing or there is
    no scheduling model of the processor.
    """

    builds_ahead = False

    def __init__(self, target: tvm.target.Target, processor: Processor, gigahertz: float) -> None:
        if not processor.scheduling_model:
            raise RelayLayoutError(
                f"there is no scheduling model of {processor.name}; give a target such as "
                "aarch64-cortex-a76, whose core has one"
            )
        self.cpu = f"{analyser()} {processor.scheduling_model}"
        self._target = target
        self._processor = processor
        self._gigahertz = gigahertz
        self._loops: dict[tuple[ConvolutionWorkload, Knobs], _Code] = {}

    def measure(
        self, workload: ConvolutionWorkload, knobs: Sequence[Any], rounds: int = 1
    ) -> Iterator[Measurement]:
        """One modelled time for each of ``knobs``; ``rounds`` would not change it."""
        for one in knobs:
            try:
                yield Measurement((self.seconds(workload, one),))
            except (RelayLayoutError, RuntimeError) as error:
                yield Measurement((), f"model: {last_line(str(error))}")

    def build_ahead(self, workload: ConvolutionWorkload, knobs: Sequence[Any]) -> None:
        """Not asked for."""

    def measure_functions(self, functions: Sequence[tirx.PrimFunc], rounds: int = 1) -> Iterator[Measurement]:
        """Errors: there is a model of convolutions alone."""
        for _ in functions:
            yield Measurement((), "model: there is none of this function")

    def result_error(self, workload: ConvolutionWorkload, knobs: Any) -> str:
        """Nothing is known to be wrong of what is not run."""
        return ""

    def close(self) -> None:
        """There are no processes to end."""

    def assembly(self, workload: ConvolutionWorkload, knobs: Knobs) -> str:
        """The kernel as the target's compiler prints it."""
        module = workers.build(workers.named(scheduled_kernel(workload, knobs)), self._target)
        code = next(part for part in (module, *module.imports) if str(part.kind) == "llvm")
        return str(code.inspect_source("asm"))

    def analysis(self, workload: ConvolutionWorkload, knobs: Knobs) -> Analysis:
        """The analysis of the loop that multiplies; RelayLayoutError where there is none."""
        return self._analysis(self.assembly(workload, knobs))

    def attainable(self, workload: ConvolutionWorkload, found: Analysis) -> float:
        """The largest share of the multiply-adds that a loop of the workload can reach.

        Where bytes are multiplied to int16, what adds the products up takes vector units as well. Where a
        loop finishes and stores its results, their epilogue and their stores do: of a depthwise convolution,
        whose sums are a few products long, that counts.
        """
        if multiplies_long(workload, self._processor):
            least = found.loop.vector_operations / found.operations_per_cycle
            return min(1.0, found.loop.multiply_adds / found.per_cycle / least)
        if not found.loop.vector_stores:
            return 1.0
        products = workload.group_in_channels * workload.taps
        return products / (products + EPILOGUE_OPERATIONS + self._processor.store_operations)

    def seconds(self, workload: ConvolutionWorkload, knobs: Knobs) -> float:
        """The modelled run time of a kernel; RelayLayoutError where its code cannot be analysed."""
        same_code = (workload, _inner(workload, knobs))
        if same_code not in self._loops:
            self._loops[same_code] = self._code(workload, knobs)
        code = self._loops[same_code]
        if isinstance(knobs, WinogradKnobs):
            cycles = self._winograd(workload, knobs, code)
        else:
            cycles = self._direct(workload, knobs, code.products)
        if code.products.loop.spills:
            cycles *= SPILL_PENALTY
        return cycles / self._processor.threads / (self._gigahertz * 1e9)

    def _analysis(self, assembly: str) -> Analysis:
        loop = hot_loop(assembly)
        if loop is None:
            raise RelayLayoutError("no loop of the kernel multiplies vectors and accumulates")
        return analyse(loop, self._processor)

    def _code(self, workload: ConvolutionWorkload, knobs: Knobs) -> "_Code":
        assembly = self.assembly(workload, knobs)
        found = self._analysis(assembly)
        if not isinstance(knobs, WinogradKnobs):
            return _Code(found)
        model = self._processor.scheduling_model
        data, result = _transforms(innermost_loops(assembly), knobs)
        places, results = _stored(knobs)
        return _Code(
            found,
            loop_cycles(data, model) * places / data.vector_stores,
            loop_cycles(result, model) * results / result.vector_stores,
        )

    def _direct(self, workload: ConvolutionWorkload, knobs: ConvolutionKnobs, found: Analysis) -> float:
        """Cycles over all threads."""
        processor = self._processor
        registers = processor.registers(knobs.lanes, workload.out_dtype)
        accumulators = knobs.tile_pixels * knobs.tile_channels * registers
        steps = workload.group_in_channels * workload.taps / workload.word
        products = LONG_PRODUCTS if multiplies_long(workload, processor) else 1
        words = neon_matrices.WORDS if workload.paired_words else 1
        at_once = words * found.loop.multiply_adds / (products * accumulators)
        cycles = steps / at_once * found.cycles
        if not found.loop.vector_stores:
            cycles += _entries(workload, at_once) * ENTRY_CYCLES
            cycles += TILE_CYCLES + ACCUMULATOR_CYCLES * accumulators
        _, channel_vectors, pixels = vector_axes(workload, processor)
        compute = tiles_of(workload, processor, knobs).count * cycles
        compute *= imbalance(workload, processor, knobs, pixels, channel_vectors)
        traffic = direct_traffic(workload, processor, knobs)
        moving = traffic.cycles(processor)
        if not knobs.parallel:
            moving *= processor.threads
        busy = max(compute, moving) + (1 - OVERLAP) * min(compute, moving)
        launch = processor.threads * processor.launch_cycles if knobs.parallel else 0.0
        return busy + traffic.padding_cycles + launch

    def _winograd(self, workload: ConvolutionWorkload, knobs: WinogradKnobs, code: "_Code") -> float:
        """Cycles over all threads."""
        processor = self._processor
        registers = processor.registers(knobs.out_lanes, workload.out_dtype)
        streams = knobs.tile_channels * registers
        step = code.products.cycles_per_multiply_add * knobs.tile_pixels * streams
        steps = workload.summed_planes // workload.word
        if steps * streams * processor.vector_bytes > processor.l1_bytes // 2:
            # The weights of the tile come from the level-2 cache each time.
            step = max(step, streams * processor.vector_bytes / processor.cache_bytes_per_cycle)
        loops = WinogradLoops(step, code.data, code.result)
        return winograd_cycles(workload, processor, knobs, loops)


@dataclass(frozen=True)
class _Code:
    """The loops of a kernel: its products, and for Winograd the cycles of both transforms of a tile.

    These are for one vector register of channels.
    """

    products: Analysis
    data: float = 0.0
    result: float = 0.0


def _entries(workload: ConvolutionWorkload, at_once: float) -> float:
    """How often the loop is entered for one tile, which takes ``at_once`` steps of the reduction a time."""
    block = reduction_block(workload.data_layout, workload.group_in_channels)
    extents = {
        "rc": workload.group_in_channels // block,
        "rb": block,
        "rd": workload.taps // prod(workload.kernel),
        "rh": workload.kernel[0],
        "rw": workload.kernel[1],
    }
    extents["rw" if workload.word_axis == "W" else "rb" if block > 1 else "rc"] //= workload.word
    remaining = float(prod(extents.values()))
    unrolled = 1.0
    for name in reversed(reduction_axes(workload)):
        unrolled *= extents[name]
        remaining /= extents[name]
        if unrolled > at_once:
            break
    return remaining


def _inner(workload: ConvolutionWorkload, knobs: Knobs) -> Knobs:
    """The same for knobs whose loops are the same where they are analysed."""
    if workload.is_depthwise:
        # The kernel has no loop in it, so that a short one around it is unrolled.
        return replace(knobs, rows=min(knobs.rows, MOST_UNROLLED))
    # How many rows a chunk has changes a bound of an outer loop and no more. So does the order of the outer
    # loops, unless it says where padding goes, or the transforms of Winograd.
    if isinstance(knobs, WinogradKnobs) or workload.is_copied:
        return replace(knobs, rows=1)
    return replace(knobs, rows=1, order="channels")


def _stored(knobs: WinogradKnobs) -> tuple[int, int]:
    """What the transforms of a tile store for each channel: of the data, and of the results."""
    return (knobs.tile + 2) ** 2, knobs.tile**2


def _transforms(loops: Sequence[Loop], knobs: WinogradKnobs) -> tuple[Loop, Loop]:
    """The loops that transform the data and the results: both compute, store whole tiles, and keep no sums.

    A loop may take several tiles at once, of which those of the results are smaller.
    """
    places, results = _stored(knobs)
    plain = [loop for loop in loops if loop.vector_operations and not loop.accumulating]
    data = max((loop for loop in plain if loop.vector_stores >= places), key=_length, default=None)
    most = data.vector_stores if data is not None else 0
    result = max((loop for loop in plain if results <= loop.vector_stores < most), key=_length, default=None)
    if data is None or result is None:
        raise RelayLayoutError("the transforms of the Winograd kernel are not found in its code")
    return data, result


def _length(loop: Loop) -> int:
    return len(loop.instructions)
