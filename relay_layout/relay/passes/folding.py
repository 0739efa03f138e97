"""Operators on constants alone as constants."""

import tvm
from tvm import relax

from relay_layout.ir import Constant, operator_name
from relay_layout.relay.operators import decompose
from relay_layout.rewrite.fold import fold_constants


def folded(module: tvm.IRModule) -> tvm.IRModule:
    """The module without operators of Relax on constants alone, and without what nothing reads then."""
    module = relax.transform.CanonicalizeBindings()(fold_constants(relax.transform.Normalize()(module)))
    return tvm.transform.Sequential([relax.transform.FoldConstant(), relax.transform.DeadCodeElimination()])(
        module
    )


def folded_with_quantized(module: tvm.IRModule) -> tvm.IRModule:
    """The same, and without operators of relay.qnn on constants alone; the others stay as they are."""
    found: list[relax.Call] = []

    def of_constants(call: relax.Call) -> bool:
        takes = operator_name(call).startswith("relay.qnn.") and all(
            isinstance(operand, Constant) for operand in call.args
        )
        if takes:
            found.append(call)
        return takes

    module = folded(module)
    while True:
        found.clear()
        opened = decompose(module, of_constants)
        if not found:
            return module
        # What was folded may be all that another one reads.
        module = folded(opened)
