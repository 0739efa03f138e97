"""Copies of as many bytes as lie side by side, asynchronous ones and loads into registers.

TVM copies element by element where it cannot see, when it makes vectors of loops, that a condition is the
same for all of them; by the end of its passes the condition has become so simple that it is plain. Where the
condition chooses another constant than 0, which an asynchronous copy cannot write, the constant is stored.
"""

from dataclasses import dataclass, replace
from typing import Any

import tvm
from tvm import tirx
from tvm.ir import Call, Op
from tvm.ir.expr import TensorLoad
from tvm_ffi import structural_map

from topi_ext.codegen.passes import function_pass, replaced
from topi_ext.cuda.codegen.statements import ASYNC_COPY, holds
from topi_ext.dtypes import DTYPE_BYTES
from topi_ext.ir import repeated

COPIED_BYTES = (4, 8, 16)
"""What one asynchronous copy moves."""

_EITHER = Op.get("prim.if_then_else")
_COMMIT = "async_commit_queue_scope"


@function_pass
def widen_copies(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Turn loops over neighbouring elements into one copy: those within a group of asynchronous copies, and
    those that load registers from global memory.

    Expects device functions with flat buffers.
    """

    def on_group(group: tirx.AttrStmt) -> Any:
        if group.attr_key != _COMMIT:
            return group
        return structural_map(group, [(tirx.For, _widened), (tirx.BufferStore, _of_vector)])

    return replaced(func, [(tirx.AttrStmt, on_group), (tirx.For, _loaded)])


def _widened(loop: tirx.For) -> Any:
    """The copy that a loop is; the loop where it is none."""
    if not isinstance(loop.extent, tirx.IntImm) or not isinstance(loop.min, tirx.IntImm) or int(loop.min):
        return loop
    found = _stored(loop.body) if isinstance(loop.body, tirx.BufferStore) else _copied(loop.body)
    if found is None:
        return loop
    count = int(loop.extent)
    target, source, condition = (
        _settled(part, loop.loop_var, count) for part in (found.target, found.source, found.condition)
    )
    runs = all(_is_aligned_run(place, loop.loop_var, count) for place in (target, source))
    if not found.fits(count) or not runs or (condition is not None and _reads(condition, loop.loop_var)):
        return loop
    first = [_at(place, loop.loop_var, 0) for place in (target, source)]
    return replace(found, target=first[0], source=first[1], condition=condition).statement(count)


def _loaded(loop: tirx.For) -> Any:
    """The load of a vector that a loop is, where a condition may choose a constant instead; the loop where it
    is none.
    """
    store = loop.body
    if not isinstance(store, tirx.BufferStore) or not isinstance(loop.extent, tirx.IntImm) or int(loop.min):
        return loop
    value, condition, otherwise = store.value, None, None
    if isinstance(value, Call) and value.op.same_as(_EITHER):
        condition, value, otherwise = value.args
    if not isinstance(value, TensorLoad) or isinstance(value.indices[0], tirx.Ramp):
        return loop
    scopes = store.buffer.scope(), value.source.scope()
    if scopes not in (("local", ""), ("local", "global")) or not isinstance(
        otherwise, tirx.IntImm | tirx.FloatImm | None
    ):
        return loop
    count, dtype = int(loop.extent), str(store.buffer.dtype)
    if count * DTYPE_BYTES.get(dtype, 0) not in COPIED_BYTES or str(value.source.dtype) != dtype:
        return loop
    places = (store.indices[0], value.indices[0])
    target, source = (_settled(place, loop.loop_var, count) for place in places)
    condition = _settled(condition, loop.loop_var, count)
    runs = all(_is_aligned_run(place, loop.loop_var, count) for place in (target, source))
    if not runs or (condition is not None and _reads(condition, loop.loop_var)):
        return loop
    ramps = [tirx.Ramp(_at(place, loop.loop_var, 0), 1, count) for place in (target, source)]
    loaded = tirx.BufferStore(store.buffer, tirx.BufferLoad(value.source, [ramps[1]]), [ramps[0]])
    if condition is None:
        return loaded
    # TVM writes no vector of 16 equal bytes.
    constant = tirx.BufferStore(store.buffer, otherwise, list(store.indices))
    return tirx.IfThenElse(
        condition, loaded, tirx.For(loop.loop_var, 0, count, tirx.ForKind.UNROLLED, constant)
    )


def _of_vector(store: tirx.BufferStore) -> Any:
    """The copy that a store of a vector is; TVM makes none where an index is a sum of vectors."""
    target = tvm.sym.Analyzer().simplify(store.indices[0])
    found = _stored(store) if isinstance(target, tirx.Ramp) else None
    if found is None:
        return store
    source = tvm.sym.Analyzer().simplify(found.source)
    count = int(target.lanes)
    runs = isinstance(source, tirx.Ramp) and all(_is_aligned_ramp(ramp, count) for ramp in (target, source))
    if not found.fits(count) or not runs:
        return store
    return replace(found, target=target.base, source=source.base).statement(count)


@dataclass(frozen=True)
class _Copy:
    """A copy of elements of ``dtype`` from the place ``source`` of ``origin`` to the place ``target`` of
    ``to``; where ``condition`` is false, of zeros, or of ``border``'s constant to its buffer.
    """

    dtype: str
    to: Any
    target: Any
    origin: Any
    source: Any
    condition: Any
    border: tuple[Any, Any] | None = None

    def fits(self, count: int) -> bool:
        """Is there one instruction for so many elements?"""
        return count * DTYPE_BYTES[self.dtype] in COPIED_BYTES

    def statement(self, count: int) -> Any:
        """The asynchronous copy of so many elements from the places on."""
        size = tirx.const(count * DTYPE_BYTES[self.dtype], "int32")
        arguments = [self.to, self.target, self.origin, self.source, size]
        if self.border is None and self.condition is not None:
            arguments.append(self.condition)
        copied = tirx.Evaluate(tirx.call_intrin(self.dtype, ASYNC_COPY.name, *arguments))
        if self.border is None:
            return copied
        buffer, constant = self.border
        place = tirx.Ramp(self.target, 1, count)
        stored = tirx.BufferStore(buffer, tirx.Broadcast(constant, count), [place])
        return tirx.IfThenElse(self.condition, copied, stored)


def _stored(store: tirx.BufferStore) -> _Copy | None:
    """The copy of an element that a store to shared memory is."""
    value, condition, border = store.value, None, None
    if not store.buffer.scope().startswith("shared"):
        return None
    if isinstance(value, Call) and value.op.same_as(_EITHER):
        condition, value, otherwise = value.args
        constant = repeated(otherwise)
        if not isinstance(constant, tirx.IntImm | tirx.FloatImm):
            return None
        border = (store.buffer, constant) if constant.value else None
    dtype = str(store.buffer.dtype)
    if not isinstance(value, TensorLoad) or value.source.scope() not in ("", "global"):
        return None
    if str(value.source.dtype) != dtype or dtype not in DTYPE_BYTES:
        return None
    places = store.indices[0], value.source.data, value.indices[0]
    return _Copy(dtype, store.buffer.data, *places, condition, border)


def _copied(statement: Any) -> _Copy | None:
    """The same of an asynchronous copy of one element."""
    call = statement.value if isinstance(statement, tirx.Evaluate) else None
    if not isinstance(call, Call) or not call.op.same_as(ASYNC_COPY):
        return None
    to, target, origin, source, size, *condition = call.args
    dtype = str(call.ty.dtype)
    if DTYPE_BYTES.get(dtype) != int(size):
        return None
    return _Copy(dtype, to, target, origin, source, condition[0] if condition else None)


def _settled(expression: Any, variable: Any, count: int) -> Any:
    """The same with ``variable`` taken out of divisions that it does not change.

    It counts from 0 up to ``count``; added to a multiple of that it reaches no other multiple.
    """

    def divided(node: Any) -> Any:
        if not isinstance(node.b, tirx.IntImm) or int(node.b) % count:
            return node
        first = _at(node.a, variable, 0)
        step = tvm.sym.Analyzer().simplify(node.a - first - variable)
        if getattr(step, "value", None) != 0 or not is_multiple(first, count):
            return node
        settled = type(node)(first, node.b)
        return settled + variable if isinstance(node, tirx.FloorMod) else settled

    if expression is None:
        return None
    return structural_map(expression, ((tirx.FloorDiv, tirx.FloorMod), divided))


def is_multiple(value: Any, count: int) -> bool:
    """Is it plain that an integer expression is a multiple of ``count``?"""
    modulus = tvm.sym.Analyzer().modular_set(value)
    return int(modulus.coeff) % count == 0 and int(modulus.base) % count == 0


def _at(place: Any, variable: Any, number: int) -> Any:
    value = tirx.const(number, "int32")
    moved = structural_map(place, (tirx.Var, lambda found: value if found.same_as(variable) else found))
    return tvm.sym.Analyzer().simplify(moved)


def _is_aligned_run(place: Any, variable: Any, count: int) -> bool:
    """Do the places follow one another, the first at a multiple of their number?"""
    analyzer = tvm.sym.Analyzer()
    first = _at(place, variable, 0)
    steps = [analyzer.simplify(_at(place, variable, number) - first) for number in range(count)]
    if [getattr(step, "value", None) for step in steps] != list(range(count)):
        return False
    return is_multiple(first, count)


def _is_aligned_ramp(ramp: tirx.Ramp, count: int) -> bool:
    """The same of the places of a vector."""
    return getattr(ramp.stride, "value", None) == 1 and is_multiple(ramp.base, count)


def _reads(expression: Any, variable: Any) -> bool:
    return holds(expression, tirx.Var, lambda other: other.same_as(variable))
