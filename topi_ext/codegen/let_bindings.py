"""Variables bound within expressions, brought to where TVM's vectorizer can take them.

It visits the factors of a product twice where they are the same for all lanes, as a scalar that is broadcast
is, and takes the second binding of a variable for one to another value.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tvm import tirx
from tvm.ir import Call, Op, TensorLoad
from tvm_ffi import structural_equal, structural_map, structural_walk

from topi_ext.codegen.passes import function_pass, replaced
from topi_ext.ir import IF_THEN_ELSE, nodes_of, sequence, substitute


@function_pass
def flatten_bindings(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """What an expression that is stored binds, it binds before it computes anything else."""
    return replaced(func, (tirx.BufferStore, _flattened))


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
        movable = movable and not (isinstance(call.op, Op) and call.op.name == IF_THEN_ELSE)

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
        used = nodes_of(values[variable], tirx.Var)
        for other in used:
            if other in values:
                yield from visit(other)
        yield variable

    for variable in values:
        yield from visit(variable)


@function_pass
def choose_numbers(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Floats that are made of truth values are chosen: TVM fails on those of vectors that are bound."""
    return replaced(func, (tirx.Cast, _chosen))


def _chosen(cast: tirx.Cast) -> Any:
    dtype = str(cast.ty.dtype)
    if not dtype.startswith("float") or str(cast.value.ty.dtype) != "bool":
        return cast
    return tirx.Select(cast.value, tirx.const(1.0, dtype), tirx.const(0.0, dtype))


@function_pass
def inline_casts(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Floats that are made of whole numbers are not bound: TVM's analysis of what is bound fails on them."""
    return replaced(func, (tirx.SeqStmt, _without_casts))


def _without_casts(whole: tirx.SeqStmt) -> Any:
    values: dict[tirx.Var, Any] = {}
    kept = []
    for statement in whole.seq:
        found = substitute(statement, values) if values else statement
        if isinstance(found, tirx.Bind) and _is_cast(found.value):
            values[found.var] = found.value
        else:
            kept.append(found)
    if not values:
        return whole
    return sequence(kept)


def _is_cast(value: Any) -> bool:
    if "float" not in str(getattr(value.ty, "dtype", "")):
        return False
    casts = nodes_of(value, tirx.Cast)
    loads = nodes_of(value, TensorLoad)
    # What is loaded may be overwritten before it is used.
    return not loads and any(str(cast.value.ty.dtype).startswith(("int", "uint")) for cast in casts)
