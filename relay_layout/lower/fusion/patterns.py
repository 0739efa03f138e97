"""TVM's operator pattern kinds (``OpPatternKind``), by which ``FuseOps`` groups functions.

Elementwise and broadcast functions are fused into a convolution before them, injective ones into elementwise
functions only, and opaque ones are never fused.
"""

from collections import Counter
from collections.abc import Mapping

import tvm
from tvm import relax

from relay_layout.ir import copy_of, with_operands, with_values
from relay_layout.lower.fusion.function_calls import function_calls

PATTERN = "op_pattern"
"""The function attribute that holds the pattern kind."""

PRIMITIVE = "Primitive"
"""The function attribute of a group of ``FuseOps``, which becomes one kernel."""

ELEMENTWISE, BROADCAST, INJECTIVE, OUT_ELEMENTWISE_FUSABLE, OPAQUE = 0, 1, 2, 4, 8


def with_pattern(module: tvm.IRModule, calls: Mapping[relax.Var, relax.Call], pattern: int) -> tvm.IRModule:
    """The module with ``pattern`` on the functions that ``calls`` of "main" call; itself without calls.

    A function that other calls share is copied for these.
    """
    if not calls:
        return module
    users = Counter(call.args[0] for call in function_calls(module["main"]).values())
    marked = Counter(call.args[0] for call in calls.values())
    builder = relax.BlockBuilder(module)
    own: dict[tvm.ir.GlobalVar, tvm.ir.GlobalVar] = {}
    changed = {function: module[function].with_attr(PATTERN, pattern) for function in marked}
    for function, count in marked.items():
        if count < users[function]:
            own[function] = builder.add_func(changed[function], f"{function.name_hint}_apart")
    found = builder.get()
    updated = copy_of(found)
    for function in changed.keys() - own.keys():
        updated.update_func(function, changed[function])
    moved = {
        # With its type, without which TVM does not find "main" among functions.
        variable: builder.normalize(with_operands(call, [own[call.args[0]], *call.args[1:]]))
        for variable, call in calls.items()
        if call.args[0] in own
    }
    if moved:
        updated.update_func(module.get_global_var("main"), with_values(module["main"], moved))
    return updated
