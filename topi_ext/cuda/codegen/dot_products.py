"""Dot products of bytes on CUDA cores (dp4a) as tensor intrinsics, built where they are first used.

CUDA's ``__dp4a`` takes operands of one signedness; the instruction has both (PTX ISA, "dp4a").
"""

from functools import cache
from typing import Any

from tvm.s_tir import TensorIntrin
from tvm.tirx.script import builder as T

from topi_ext.cuda.codegen.tensor_functions import SHARED, operand, tensor_function
from topi_ext.errors import CudaError
from topi_ext.workloads.convolution import BYTES

DOT_BYTES = 16
"""Neighbouring bytes of each operand: one load from shared memory, four instructions."""

FUNCTIONS = {"uint8": "topi_ext_dp4a_u8", "int8": "topi_ext_dp4a_s8"}
"""Device functions of (data, weights, sum), by the dtype of the data; weights are int8."""

_TYPES = {"uint8": ("uint4", "u32"), "int8": ("int4", "s32")}


def _source(dtype: str) -> str:
    words, suffix = _TYPES[dtype]
    instruction = f'asm("dp4a.{suffix}.s32 %0, %1, %2, %0;" : "+r"(sum)'
    products = "".join(f'  {instruction} : "r"(data.{word}), "r"(weight.{word}));\n' for word in "xyzw")
    return f"""
__device__ __forceinline__ int {FUNCTIONS[dtype]}({words} data, int4 weight, int sum) {{
{products}  return sum;
}}
"""


@cache
def dot_product(dtype: str) -> str:
    """The name of the intrinsic for data of ``dtype`` and weights of int8, both in shared memory.

    CudaError for data of other dtypes than bytes.
    """
    if dtype not in BYTES:
        raise CudaError(f"dp4a does not multiply {dtype}; use one of {', '.join(BYTES)}")

    def buffers() -> list[Any]:
        operands = [operand((DOT_BYTES,), found, SHARED) for found in (dtype, "int8")]
        return [*operands, operand((1,), "int32", "local")]

    def describe(data: Any, weight: Any, total: Any) -> None:
        with T.grid(DOT_BYTES) as loop, T.sblock("element"):
            k = T.axis.reduce(DOT_BYTES, loop)
            product = data[k].astype("int32") * weight[k].astype("int32")
            T.buffer_store(total, total[0] + product, [0])

    def implement(data: Any, weight: Any, total: Any) -> None:
        words = [found.vload([0], f"{found.dtype}x{DOT_BYTES}") for found in (data, weight)]
        result = T.cuda.func_call(
            FUNCTIONS[dtype], *words, total[0], source_code=_source(dtype), return_type="int32"
        )
        T.buffer_store(total, result, [0])

    name = f"topi_ext.dp4a.{dtype}"
    description = tensor_function(buffers(), [2, 0, 1], 2, describe)
    TensorIntrin.register(
        name, description, tensor_function(buffers(), [2, 0, 1], 2, implement), override=True
    )
    return name
