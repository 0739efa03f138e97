"""Variables bound within expressions, brought to where TVM's vectorizer can take them.

It visits the factors of a product twice where they are the same for all lanes, as a scalar that is broadcast
is, and takes the second binding of a variable for one to another value.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import tvm
from tvm import tirx
from tvm.ir import Call, Op
from tvm_ffi import structural_equal, structural_map, structural_walk

_LAZY = "prim.if_then_else"


def flatten_bindings() -> tvm.transform.Pass:
    """What an expression that is stored binds, it binds before it computes anything else."""

    def on_function(func: tirx.PrimFunc, module: tvm.IRModule, context: Any) -> tirx.PrimFunc:
        del module, context
        return func.with_body(structural_map(func.body, (tirx.BufferStore, _flattened)))

    return tirx.transform.prim_func_pass(on_function, opt_level=0, name="topi_ext.flatten_bindings")


def _flattened(store: tirx.BufferStore) -> tirx.BufferStore:
    values: dict[tirx.Var, Any] = {}
    movable = True

    def on_binding(binding: tirx.Let) -> Any:
        nonlocal movable
        movable = movable and structural_equal(values.setdefault(binding.var, binding.value), binding.value)
        return binding.body

    def on_call(call: Call) -> None:
        nonlocal movable
        # What it guards may only be read where its condition holds.
        movable = movable and not (isinstance(call.op, Op) and call.op.name == _LAZY)

    result = structural_map(store.value, (tirx.Let, on_binding))
    structural_walk(store.value, (Call, on_call))
    if not values or not movable:
        return store
    for variable in reversed(list(_in_order(values))):
        result = tirx.Let(variable, values[variable], result)
    return tirx.BufferStore(store.buffer, result, store.indices)


def _in_order(values: Mapping[tirx.Var, Any]) -> Iterator[tirx.Var]:
    """Variables, each behind those that its value uses."""
    done: set[tirx.Var] = set()

    def visit(variable: tirx.Var) -> Iterator[tirx.Var]:
        if variable in done:
            return
        done.add(variable)
        used: list[tirx.Var] = []
        structural_walk(values[variable], (tirx.Var, used.append))
        for other in used:
            if other in values:
                yield from visit(other)
        yield variable

    for variable in values:
        yield from visit(variable)


__all__ = ["flatten_bindings"]
