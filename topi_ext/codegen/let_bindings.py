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
from topi_ext.ir import IF_THEN_ELSE, nodes_of, sequence


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
def hide_floats(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """What floats are bound to is computed into local variables, into which TVM's analysis does not look.

    It takes floats for whole numbers and fails on the bounds of some, and puts what is bound in the place of
    each use: time is the product of how often each is used, half a minute for an unrolled loop of Mish.
    """
    return replaced(func, [(tirx.SeqStmt, _held), (tirx.BufferStore, _unbound)])


def _held(whole: tirx.SeqStmt) -> Any:
    # One sequence, since what one binds ends with it.
    held = [part for statement in whole.seq for part in _hidden(statement)]
    return whole if len(held) == len(whole.seq) else sequence(held)


def _unbound(store: tirx.BufferStore) -> Any:
    """The statement behind those that compute what it binds."""
    value, computed = store.value, []
    while isinstance(value, tirx.Let):
        computed.extend(_hidden(tirx.Bind(value.var, value.value)))
        value = value.body
    return sequence([*computed, tirx.BufferStore(store.buffer, value, store.indices)]) if computed else store


def _hidden(statement: Any) -> list[Any]:
    """The statement; a binding of what is computed in float as one of a local variable that holds it."""
    if not isinstance(statement, tirx.Bind) or not _is_float(statement.value):
        return [statement]
    value = statement.value
    if isinstance(value, TensorLoad | tirx.Var | tirx.FloatImm):
        return [statement]
    held = tirx.decl_buffer((1,), value.ty.dtype, statement.var.name, scope="local")
    here = [tirx.const(0, "int32")]
    load = tirx.BufferLoad(held, here)
    return [tirx.AllocBuffer(held), tirx.BufferStore(held, value, here), tirx.Bind(statement.var, load)]


def _is_float(value: Any) -> bool:
    return str(getattr(value.ty, "dtype", "")).startswith("float")
