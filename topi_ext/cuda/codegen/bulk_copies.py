"""Bulk copies of sm_90: whole tiles, by tensor maps, that a barrier in shared memory counts the bytes of.

Source: PTX ISA, "cp.async.bulk.tensor" and "mbarrier". One thread announces the bytes of a tile at the
barrier of its stage and issues the copy; the barrier's phase ends when all that were announced are there.
Threads wait for the phase by its parity: tiles of a stage take turns.
"""

from dataclasses import dataclass
from typing import Any

from tvm.ir import Call

from topi_ext.cuda.codegen.device_functions import call_void, called

BEGIN, END = "topi_ext_bulk_begin", "topi_ext_bulk_end"
COPY_TILE, COPY_WINDOWS = "topi_ext_bulk_copy_tile", "topi_ext_bulk_copy_windows"
ARRIVED = "topi_ext_bulk_arrived"
"""Device functions; ``END`` is none, and says only that the barriers' memory is kept until there."""

OPERANDS = 2
"""Copies that a stage's barrier waits for."""

BARRIER_BYTES, MOST_STAGES = 1024, 8
"""Shared memory that barriers take, so that tiles around it stay where they are aligned, and how many there
may be."""


@dataclass(frozen=True)
class Arrival:
    """What a copy arrives at: ``barriers`` points to those of all stages, ``stage`` is the copy's, ``bytes``
    how many it brings.
    """

    barriers: Any
    stage: Any
    bytes: int


def begin(barriers: Any, stages: int) -> Any:
    """The call of one thread that makes barriers of so many stages."""
    source = f"""
__device__ __forceinline__ void {BEGIN}(void* barriers, int stages) {{
  unsigned first = static_cast<unsigned>(__cvta_generic_to_shared(barriers));
  for (int stage = 0; stage < stages; ++stage) {{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], {OPERANDS};" : : "r"(first + stage * 8) : "memory");
  }}
  asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
  asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
}}
"""
    return call_void(BEGIN, [barriers, stages], source)


def end(barriers: Any) -> Any:
    """The call behind which the barriers' memory is free."""
    return call_void(END, [barriers], f"\n__device__ __forceinline__ void {END}(void*) {{}}\n")


def copy_tile(to: Any, tensor_map: Any, arrival: Arrival, place: tuple[Any, Any]) -> Any:
    """The call of one thread that copies a box by a tiled map, from the element of the row that ``place``
    says, to a pointer into shared memory.
    """
    return _copy(COPY_TILE, "2d", "tile", ("x", "y"), (), to, tensor_map, arrival, place)


def copy_windows(
    to: Any, tensor_map: Any, arrival: Arrival, place: tuple[Any, Any, Any, Any], tap: tuple[Any, Any]
) -> Any:
    """The same by a map of windows: ``place`` is the first channel, and column, row and image of the first
    window; ``tap`` how far its tap lies to the right and below.
    """
    names = ("channel", "x", "y", "image")
    return _copy(
        COPY_WINDOWS, "4d", "im2col", names, ("right", "below"), to, tensor_map, arrival, (*place, *tap)
    )


def arrived(barriers: Any, stage: Any, parity: Any) -> Any:
    """The call that waits until the phase of a stage's barrier has ended whose parity is ``parity``."""
    source = f"""
__device__ __forceinline__ void {ARRIVED}(void* barriers, int stage, int parity) {{
  __syncwarp();
  asm volatile(
    "{{\\n.reg .pred done;\\nWAIT:\\n"
    "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\\n"
    "@done bra DONE;\\nbra WAIT;\\nDONE:\\n}}\\n"
    : : "r"(static_cast<unsigned>(__cvta_generic_to_shared(barriers)) + stage * 8), "r"(parity) : "memory");
}}
"""
    return call_void(ARRIVED, [barriers, stage, parity], source)


def is_copy(call: Any) -> bool:
    """Does a call copy a tile?"""
    return isinstance(call, Call) and called(call) in (COPY_TILE, COPY_WINDOWS)


def _copy(
    name: str,
    rank: str,
    mode: str,
    coordinates: tuple[str, ...],
    offsets: tuple[str, ...],
    to: Any,
    tensor_map: Any,
    arrival: Arrival,
    values: tuple[Any, ...],
) -> Any:
    count = len(coordinates)
    place = ", ".join(f"%{number + 3}" for number in range(count))
    behind = ", ".join(f"%{number + 3 + count}" for number in range(len(offsets)))
    operands = [f'"r"({name_})' for name_ in coordinates]
    operands += [f'"h"(static_cast<unsigned short>({name_}))' for name_ in offsets]
    parameters = ", ".join(f"int {name_}" for name_ in (*coordinates, *offsets))
    tap = f", {{{behind}}}" if offsets else ""
    source = f"""
__device__ __forceinline__ void {name}(
    void* to, const CUtensorMap& map, void* barriers, int stage, int bytes, {parameters}) {{
  unsigned barrier = static_cast<unsigned>(__cvta_generic_to_shared(barriers)) + stage * 8;
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
    : : "r"(barrier), "r"(bytes) : "memory");
  asm volatile(
    "cp.async.bulk.tensor.{rank}.shared::cluster.global.{mode}.mbarrier::complete_tx::bytes "
    "[%0], [%1, {{{place}}}], [%2]{tap};"
    : : "r"(static_cast<unsigned>(__cvta_generic_to_shared(to))), "l"(&map), "r"(barrier),
    {", ".join(operands)} : "memory");
}}
"""
    arguments = [to, tensor_map, arrival.barriers, arrival.stage, arrival.bytes, *values]
    return call_void(name, arguments, source)
