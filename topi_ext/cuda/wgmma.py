"""``wgmma.mma_async`` of sm_90: what four warps multiply together, from tiles in shared memory.

Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions". Both operands lie in shared memory by
rows of the depth ("K-major"); a 64-bit descriptor names each. Bits 0 to 13 are the address of its first row
over 16, bits 16 to 29 an offset that swizzled rows do not use, bits 32 to 45 the bytes from eight rows to the
next eight over 16, bits 49 to 51 where the pattern begins, 0 for tiles at multiples of eight rows, and bits
62 and 63 which permutation the rows have. The permutations of 32, 64 and 128 bytes are those of
:mod:`topi_ext.cuda.swizzle`, by the bits of the address; a step along a row is added to the address as if
there were none. Sums lie as those of ``mma.sync``: each warp of the four has 16 rows of 64, and of each 16
columns the registers that :func:`topi_ext.cuda.multiplication.lane_of` says.
"""

from dataclasses import dataclass
from typing import Any

from tvm.ir import Call, Op, StringImm
from tvm.tirx.script import builder as T

from topi_ext.cuda.multiplication import MULTIPLICATIONS, SIDE

GROUP = 4
"""Warps that multiply together."""

GROUP_ROWS = GROUP * SIDE

MOST_COLUMNS = 256
"""Of one instruction; SIDE is the step."""

PATTERN_ROWS = 8
"""Rows after which the permutation begins anew: tiles lie at multiples of as many."""

SHARED_ALIGNMENT = 1024
"""Bytes of the longest permutation's pattern."""

SWIZZLES = {128: 1, 64: 2, 32: 3}
"""Bits 62 and 63 of a descriptor, by the bytes of a row."""

DESCRIBED = 0x3FFFF
"""Bits of an address that a descriptor holds, the last four left out."""


@dataclass(frozen=True)
class _Kind:
    """``types``: of sums and operands, in the instruction. ``scales``: its operands behind the sums' flag."""

    types: str
    scales: str
    register: str
    c_type: str


_KINDS = {
    "float16": _Kind("f32.f16.f16", ", 1, 1, 0, 0", "f", "float"),
    "uint8": _Kind("s32.u8.s8", "", "r", "int"),
    "int8": _Kind("s32.s8.s8", "", "r", "int"),
}

WGMMA_DTYPES = tuple(_KINDS)
"""What is multiplied so. Not TF32: the instruction reads float32 as it lies in shared memory, and would
truncate what has to be rounded."""

ADDRESS, MULTIPLY = "topi_ext_shared_address", "topi_ext_wgmma_multiply"
FENCE, COMMIT, WAIT = "topi_ext_wgmma_fence", "topi_ext_wgmma_commit", "topi_ext_wgmma_wait"
PROXY_FENCE = "topi_ext_fence_proxy_async"
"""Device functions; those of sums have what they sum and how many behind their name."""

_FUNC_CALL = Op.get("tirx.cuda.func_call")


def called(call: Call) -> str:
    """The name of the device function that a call is of; empty for another call."""
    if not call.op.same_as(_FUNC_CALL) or not isinstance(call.args[0], StringImm):
        return ""
    return str(call.args[0].value)


def layout_word(row_bytes: int) -> int:
    """The upper half of a descriptor of rows of so many bytes, as a signed number of 32 bits."""
    word = (PATTERN_ROWS * row_bytes >> 4) | SWIZZLES[row_bytes] << 30
    return word - (1 << 32) if word >> 31 else word


def row_bytes_of(word: int) -> int:
    """The inverse of :func:`layout_word`."""
    return ((word & 0x3FFF) << 4) // PATTERN_ROWS


def address_word(pointer: Any) -> Any:
    """The lower half of a descriptor of rows that begin at a pointer into shared memory."""
    source = f"""
__device__ __forceinline__ int {ADDRESS}(const void* pointer) {{
  return static_cast<int>(__cvta_generic_to_shared(pointer));
}}
"""
    address = T.cuda.func_call(ADDRESS, pointer, source_code=source, return_type="int32")
    return T.bitwise_or(T.shift_right(T.bitwise_and(address, DESCRIBED), 4), 1 << 16)


def multiply(dtype: str, columns: int, sums: Any, begin: Any, left: Any, right: Any, layout: int) -> Any:
    """A call that adds 64 rows by ``columns`` products, 32 bytes deep, to the sums from ``begin`` on."""
    kind, count = _KINDS[dtype], columns // 2
    depth = MULTIPLICATIONS[dtype].depth
    name = f"{MULTIPLY}_{dtype}_{columns}"
    registers = ", ".join(f"%{place}" for place in range(count))
    source = f"""
__device__ __forceinline__ void {name}({kind.c_type}* sums, int begin, int left, int right, int layout) {{
  unsigned long long upper = static_cast<unsigned long long>(static_cast<unsigned>(layout)) << 32;
  {kind.c_type}* d = sums + begin;
  asm volatile(
    "{{\\n.reg .pred add;\\nsetp.eq.u32 add, 1, 1;\\n"
    "wgmma.mma_async.sync.aligned.m64n{columns}k{depth}.{kind.types} "
    "{{{registers}}}, %{count}, %{count + 1}, add{kind.scales};\\n}}\\n"
    : {_in_out(kind, count)}
    : "l"(upper | static_cast<unsigned>(left)), "l"(upper | static_cast<unsigned>(right))
    : "memory");
}}
"""
    return _void(name, [sums, begin, left, right, layout], source)


def fence(multiplied: Call) -> Any:
    """The call that lets what was written to the sums of a :func:`multiply` come before it."""
    return _on_sums(FENCE, "wgmma.fence.sync.aligned;", multiplied)


def wait(multiplied: Call) -> Any:
    """The call behind which all that was committed is done; ``multiplied`` is one of its products."""
    return _on_sums(WAIT, "wgmma.wait_group.sync.aligned 0;", multiplied)


def commit() -> Any:
    """The call that makes one group of all products before it."""
    return _plain(COMMIT, "wgmma.commit_group.sync.aligned;")


def proxy_fence() -> Any:
    """The call that lets wgmma see what its thread wrote to shared memory, or copied there and waited for."""
    return _plain(PROXY_FENCE, "fence.proxy.async.shared::cta;")


def _plain(name: str, instruction: str) -> Any:
    source = f"""
__device__ __forceinline__ void {name}() {{
  asm volatile("{instruction}" ::: "memory");
}}
"""
    return _void(name, [], source)


def _on_sums(stem: str, instruction: str, multiplied: Call) -> Any:
    """An instruction that the compiler must not move sums across, and so names them as operands."""
    dtype, columns = called(multiplied).removeprefix(f"{MULTIPLY}_").split("_")
    kind, count = _KINDS[dtype], int(columns) // 2
    name = f"{stem}_{kind.c_type}_{count}"
    source = f"""
__device__ __forceinline__ void {name}({kind.c_type}* sums, int begin) {{
  {kind.c_type}* d = sums + begin;
  asm volatile("{instruction}" : {_in_out(kind, count)} : : "memory");
}}
"""
    return _void(name, list(multiplied.args[1:3]), source)


def _in_out(kind: _Kind, count: int) -> str:
    return ", ".join(f'"+{kind.register}"(d[{place}])' for place in range(count))


def _void(name: str, arguments: list[Any], source: str) -> Any:
    return T.cuda.func_call(name, *arguments, source_code=source, return_type="void")


__all__ = [
    "ADDRESS",
    "COMMIT",
    "FENCE",
    "GROUP",
    "GROUP_ROWS",
    "MOST_COLUMNS",
    "MULTIPLY",
    "PATTERN_ROWS",
    "PROXY_FENCE",
    "SHARED_ALIGNMENT",
    "WAIT",
    "WGMMA_DTYPES",
    "address_word",
    "called",
    "commit",
    "fence",
    "layout_word",
    "multiply",
    "proxy_fence",
    "row_bytes_of",
    "wait",
]
