"""``wgmma.mma_async`` of sm_90: what four warps multiply together, from tiles in shared memory.

Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions". Both operands lie in shared memory by
rows of the depth ("K-major"); a 64-bit descriptor names each. Bits 0 to 13 are the address of its first row
over 16, bits 16 to 29 an offset that swizzled rows do not use, bits 32 to 45 the bytes from eight rows to the
next eight over 16, bits 49 to 51 where the pattern begins, 0 for tiles at multiples of eight rows, and bits
62 and 63 which permutation the rows have. The permutations of 32, 64 and 128 bytes are those of
:mod:`.swizzle`, by the bits of the address; a step along a row is added to the address as if there were none.
Sums lie as those of ``mma.sync``: each warp of the four has 16 rows of 64, and of each 16
columns the registers that :func:`topi_ext.cuda.multiplication.lane_of` says.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm.ir import Call
from tvm.tirx.script import builder as T

from topi_ext.cuda.codegen.device_functions import call_void, called
from topi_ext.cuda.multiplication import MULTIPLICATIONS, SIDE

GROUP = 4
"""Warps that multiply together."""

GROUP_ROWS = GROUP * SIDE

MOST_COLUMNS = 256
"""The most columns of one instruction; SIDE is the step."""

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
    """``types``: of sums and operands, in the instruction. ``scales``: its operands behind the sums' flag,
    signs and for float16 whether an operand lies the other way. ``register`` and ``c_type``: a sum's.
    """

    types: str
    scales: str
    register: str
    c_type: str


_KINDS = {
    "float16": _Kind("f32.f16.f16", ", 1, 1, 0, 0", "f", "float"),
    "tf32": _Kind("f32.tf32.tf32", ", 1, 1", "f", "float"),
    "uint8": _Kind("s32.u8.s8", "", "r", "int"),
    "int8": _Kind("s32.s8.s8", "", "r", "int"),
}

WGMMA_DTYPES = tuple(_KINDS)
"""What is multiplied so."""

LOADED = ("tf32",)
"""What has left operands in registers, fragments as those of ``mma.sync``: from shared memory float32 would
be truncated, where it has to be rounded."""

ADDRESS, MULTIPLY = "topi_ext_shared_address", "topi_ext_wgmma_multiply"
FENCE, COMMIT, WAIT = "topi_ext_wgmma_fence", "topi_ext_wgmma_commit", "topi_ext_wgmma_wait"
WAIT_FOR_EARLIER = "topi_ext_wgmma_earlier"
PROXY_FENCE = "topi_ext_fence_proxy_async"
"""Device functions; those of sums have what they sum and how many behind their name."""

LOADED_REGISTERS = 4
"""Registers of the left operand of one product."""

Registers = tuple[Any, Any]
"""An array of registers, and which of them is the first."""


def is_product(call: Call) -> bool:
    """Is a call one that :func:`multiply` made?"""
    return called(call).startswith(MULTIPLY)


def loads_left(product: Call) -> bool:
    """Does a product take its left operand from registers?"""
    return called(product).removeprefix(f"{MULTIPLY}_").rsplit("_", 1)[0] in LOADED


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


def multiply(
    dtype: str, columns: int, sums: Registers, right: Any, layout: int, left: tuple[Any, ...]
) -> Any:
    """A call that adds 64 rows by ``columns`` products, 32 bytes deep, to sums.

    ``right`` is an :func:`address_word`, ``left`` one, too, or registers of what :data:`LOADED` names;
    ``layout`` is the :func:`layout_word` of both.
    """
    kind, count = _KINDS[dtype], columns // 2
    name = f"{MULTIPLY}_{dtype}_{columns}"
    if dtype in LOADED:
        parameters = f"const {kind.c_type}* left, int first"
        found = [f'"r"(__float_as_uint(left[first + {place}]))' for place in range(LOADED_REGISTERS)]
        one = f"{{{_numbers(count + 1, LOADED_REGISTERS)}}}"
    else:
        parameters, found, one = "int left", ['"l"(upper | static_cast<unsigned>(left))'], f"%{count + 1}"
    source = f"""
__device__ __forceinline__ void {name}({kind.c_type}* sums, int begin, int right, int layout, {parameters}) {{
  unsigned long long upper = static_cast<unsigned long long>(static_cast<unsigned>(layout)) << 32;
  asm volatile(
    "{{\\n.reg .pred add;\\nsetp.eq.u32 add, 1, 1;\\n"
    "wgmma.mma_async.sync.aligned.m64n{columns}k{MULTIPLICATIONS[dtype].depth}.{kind.types} "
    "{{{_numbers(0, count)}}}, {one}, %{count}, add{kind.scales};\\n}}\\n"
    : {_sums_in_out(kind, count)}
    : "l"(upper | static_cast<unsigned>(right)), {", ".join(found)}
    : "memory");
}}
"""
    return call_void(name, [*sums, right, layout, *left], source)


def fence(multiplied: Call, loaded: int) -> Any:
    """The call that lets what was written to registers of a :func:`multiply` come before it: its sums, and
    the ``loaded`` registers that hold left operands.

    Products take those as words, so words are fenced: a float that became one behind the fence would be
    another register, and written too late.
    """
    kind, count = _sums(multiplied)
    if not loaded:
        return _on_sums(FENCE, "wgmma.fence.sync.aligned;", multiplied)
    read = "".join(f"  unsigned word{place} = __float_as_uint(left[{place}]);\n" for place in range(loaded))
    written = "".join(f"  left[{place}] = __uint_as_float(word{place});\n" for place in range(loaded))
    operands = _sums_in_out(kind, count)
    operands += "".join(f', "+r"(word{place})' for place in range(loaded))
    name = f"{FENCE}_{kind.c_type}_{count}_{loaded}"
    source = f"""
__device__ __forceinline__ void {name}({kind.c_type}* sums, int begin, float* left) {{
{read}  asm volatile("wgmma.fence.sync.aligned;" : {operands} : : "memory");
{written}}}
"""
    return call_void(name, [*multiplied.args[1:3], multiplied.args[5]], source)


def wait(multiplied: Call) -> Any:
    """The call behind which all that was committed is done; ``multiplied`` is one of its products."""
    return _on_sums(WAIT, "wgmma.wait_group.sync.aligned 0;", multiplied)


def wait_for_earlier() -> Any:
    """The call behind which all that was committed is done but for the last group, which goes on."""
    return _issued(WAIT_FOR_EARLIER, "wgmma.wait_group.sync.aligned 1;")


def commit() -> Any:
    """The call that makes one group of all products before it."""
    return _issued(COMMIT, "wgmma.commit_group.sync.aligned;")


def proxy_fence() -> Any:
    """The call that lets wgmma see what its thread wrote to shared memory, or copied there and waited for."""
    return _issued(PROXY_FENCE, "fence.proxy.async.shared::cta;")


def _on_sums(stem: str, instruction: str, multiplied: Call) -> Any:
    """An instruction that the compiler must move no use of sums across, and so names them as operands."""
    kind, count = _sums(multiplied)
    name, operands = f"{stem}_{kind.c_type}_{count}", _sums_in_out(kind, count)
    return _issued(name, instruction, f"{kind.c_type}* sums, int begin", operands, multiplied.args[1:3])


def _issued(
    name: str, instruction: str, parameters: str = "", operands: str = "", arguments: Sequence[Any] = ()
) -> Any:
    source = f"""
__device__ __forceinline__ void {name}({parameters}) {{
  asm volatile("{instruction}" : {operands} : : "memory");
}}
"""
    return call_void(name, arguments, source)


def _sums(multiplied: Call) -> tuple[_Kind, int]:
    """The kind of a product, and how many sums a thread has."""
    dtype, columns = called(multiplied).removeprefix(f"{MULTIPLY}_").split("_")
    return _KINDS[dtype], int(columns) // 2


def _numbers(first: int, count: int) -> str:
    return ", ".join(f"%{place}" for place in range(first, first + count))


def _sums_in_out(kind: _Kind, count: int) -> str:
    return ", ".join(f'"+{kind.register}"(sums[begin + {place}])' for place in range(count))
