"""Functions in LLVM's own language that kernels call, for instructions on types that TVM has no code for.

TVM's code generator knows no vector of bfloat16. What such a function takes and gives are words and floats; LLVM
puts its body in the place of each call.
"""

from typing import Any

import tvm
from tvm import tirx
from tvm.ir import Call, StringImm
from tvm_ffi import structural_walk

from topi_ext.scalar_operations import vector_of

_IMPORT = "pragma_import_llvm"
"""TVM's annotation of statements that call functions of a text in LLVM's language."""

_PREFIX = "topi_ext.llvm."
_PAIR_SUMS = f"{_PREFIX}pair_sums."

PAIR_SUM_LANES = (4, 8, 16)

_PAIR_SUM_TEXT = """
declare <{lanes} x float> @llvm.x86.avx512bf16.dpbf16ps.{bits}(
  <{lanes} x float>, <{twice} x bfloat>, <{twice} x bfloat>)
define <{lanes} x float> @{name}(<{lanes} x float> %sums, <{lanes} x i32> %left, <{lanes} x i32> %right) {{
  %pairs = bitcast <{lanes} x i32> %left to <{twice} x bfloat>
  %factors = bitcast <{lanes} x i32> %right to <{twice} x bfloat>
  %result = call <{lanes} x float> @llvm.x86.avx512bf16.dpbf16ps.{bits}(
    <{lanes} x float> %sums, <{twice} x bfloat> %pairs, <{twice} x bfloat> %factors)
  ret <{lanes} x float> %result
}}
"""

_TEXTS = {
    f"{_PAIR_SUMS}{lanes}": _PAIR_SUM_TEXT.format(
        name=f"{_PAIR_SUMS}{lanes}", lanes=lanes, twice=2 * lanes, bits=32 * lanes
    )
    for lanes in PAIR_SUM_LANES
}


def pair_sums(sums: Any, left: Any, right: Any, lanes: int) -> Any:
    """``sums`` of float32 and to each the products of two pairs of bfloat16, which words hold.

    That is VDPBF16PS of AVX512_BF16, of :data:`PAIR_SUM_LANES` words.
    """
    return tirx.call_pure_extern(vector_of("float32", lanes), f"{_PAIR_SUMS}{lanes}", sums, left, right)


def import_functions() -> tvm.transform.Pass:
    """Every function's text comes with the kernel that calls it."""

    def on_function(func: tirx.PrimFunc, module: tvm.IRModule, context: Any) -> tirx.PrimFunc:
        del module, context
        called: set[str] = set()

        def on_call(call: Call) -> None:
            if call.args and isinstance(call.args[0], StringImm):
                called.add(str(call.args[0].value))

        structural_walk(func.body, (Call, on_call))
        body = func.body
        for name in sorted(called & _TEXTS.keys()):
            anything = tirx.IterVar(None, tirx.Var("imported", "int32"), tirx.IterVar.DataPar)
            body = tirx.AttrStmt(anything, _IMPORT, StringImm(_TEXTS[name]), body)
        return func.with_body(body)

    return tirx.transform.prim_func_pass(on_function, opt_level=0, name="topi_ext.import_functions")


__all__ = ["PAIR_SUM_LANES", "import_functions", "pair_sums"]
