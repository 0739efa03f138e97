"""Which operators each call of a kernel computes, worked out before fusion forgets their names."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tvm
from tvm import relax, tirx

from relay_layout.ir import as_extent, bindings_of, calls_global, function_attributes, size_in_bytes
from relay_layout.lower.fusion.function_calls import called_attributes, function_calls, is_function_call
from relay_layout.lower.memory.strided import VARIANT_OF
from relay_layout.lower.narrow_storage import NARROWED

Place = Any
"""What stands for an expression in the module before fusion: a variable, an item or a tuple of places."""


@dataclass(frozen=True)
class KernelCall:
    """One call of a scheduled function in "main", or in a ``body``.

    ``operators`` are the bindings of the converted module that it computes, in order; transforms among them
    end in "_transformed". ``bytes`` are those of the tensors that it reads and writes.
    """

    function: str
    operators: tuple[str, ...]
    bytes: int
    body: str = ""


@dataclass(frozen=True)
class _Item:
    """One of several results."""

    whole: Place
    index: int


def kernel_calls(operators: tvm.IRModule, grouped: tvm.IRModule) -> list[KernelCall]:
    """The calls of ``grouped``, what FuseOps made of ``operators``, a module of one function per operator.

    Groups that compute the same share a function, which has the names of the first only; so every call is
    looked up in ``operators`` by its function and its arguments.
    """
    before: dict[relax.Var, Place] = {}
    known: dict[Any, list[relax.Var]] = {}
    for variable, value in _bound(operators["main"]):
        if is_function_call(value):
            known.setdefault(_key(value, before), []).append(variable)
        else:
            before[variable] = _place(value, before)
    parameters = zip(grouped["main"].params, operators["main"].params, strict=True)
    places: dict[relax.Var, Place] = dict(parameters)
    calls: list[KernelCall] = []
    for variable, value in _bound(grouped["main"]):
        if is_function_call(value):
            found = _taken(known, _key(value, places))
            places[variable] = found
            names, arguments = [found], list(value.args[1])
            function = value.args[0]
        elif calls_global(value):
            places[variable], names = _group(grouped[value.op], value, places, known)
            function, arguments = value.op, list(value.args)
        else:
            places[variable] = _place(value, places)
            continue
        moved = _moved(arguments, value)
        named = tuple(str(name.name) for name in names if name is not None)
        calls.append(KernelCall(str(function.name_hint), named, moved))
    return calls


def calls_left(
    calls: Sequence[KernelCall], functions: Sequence[str], variants: Mapping[str, str] | None = None
) -> list[KernelCall]:
    """Those of ``calls`` that still run, where ``functions`` are the names of the calls that do, in order.

    A call that no longer runs is computed in place, or is a view. A function that came up later computes
    nothing that has a name, unless ``variants`` says of which function it is one.
    """
    known = variants or {}
    left: list[KernelCall] = []
    at = 0
    for function in functions:
        name = known.get(function, function)
        ahead = next((place for place in range(at, len(calls)) if calls[place].function == name), None)
        found = KernelCall(function, (), 0) if ahead is None else calls[ahead]
        left.append(replace(found, function=function))
        at = at if ahead is None else ahead + 1
    return left


def fused_calls(calls: Sequence[KernelCall], fused: tvm.IRModule) -> list[KernelCall]:
    """Those of ``calls`` that ``fused`` still has, by the functions and the sizes of tensors that it has:
    narrowing makes other functions, of smaller tensors.
    """
    values = list(function_calls(fused["main"]).values())
    functions = [str(called_attributes(fused, value).get(NARROWED, _name(value))) for value in values]
    return [
        replace(call, function=_name(value), bytes=_moved(value.args[1], value))
        for call, value in zip(calls_left(calls, functions), values, strict=True)
    ]


def renamed(calls: Sequence[KernelCall], names: Mapping[str, str]) -> list[KernelCall]:
    """The calls with other names for operators, where ``names`` has one; each operator once in a call."""
    return [
        replace(call, operators=tuple(dict.fromkeys(names.get(name, name) for name in call.operators)))
        for call in calls
    ]


def called_functions(module: tvm.IRModule, caller: str = "main") -> list[str]:
    """The names of the scheduled functions that a function of a lowered module calls, in order."""
    return [
        str(value.op.name_hint)
        for _, value in _bound(module[caller])
        if isinstance(value, relax.Call)
        and isinstance(value.op, tvm.ir.GlobalVar)
        and isinstance(module[value.op], tirx.PrimFunc)
    ]


def variants_of(module: tvm.IRModule) -> dict[str, str]:
    """The variants among the functions of a lowered module, by name: of which function each is one."""
    attributes = {
        str(variable.name_hint): function_attributes(each) for variable, each in module.functions_items()
    }
    return {name: str(each[VARIANT_OF]) for name, each in attributes.items() if VARIANT_OF in each}


def _group(
    function: relax.Function, call: relax.Call, places: Mapping[relax.Var, Place], known: dict[Any, Any]
) -> tuple[Place, list[relax.Var | None]]:
    """What a call of a group gives, and the bindings that it computes."""
    arguments = [_place(argument, places) for argument in call.args]
    inner: dict[relax.Var, Place] = dict(zip(function.params, arguments, strict=True))
    names: list[relax.Var | None] = []
    for variable, value in _bound(function):
        if is_function_call(value):
            inner[variable] = _taken(known, _key(value, inner))
            names.append(inner[variable])
        else:
            inner[variable] = _place(value, inner)
    return _place(function.body.body, inner), names


def _bound(function: relax.Function) -> Iterator[tuple[relax.Var, Any]]:
    return ((binding.var, binding.value) for binding in bindings_of(function))


def _place(value: Any, places: Mapping[relax.Var, Place]) -> Place:
    if isinstance(value, relax.Var):
        return places.get(value, value)
    if isinstance(value, relax.TupleGetItem):
        whole = _place(value.tuple_value, places)
        return whole[value.index] if isinstance(whole, tuple) else _Item(whole, int(value.index))
    if isinstance(value, relax.Tuple):
        return tuple(_place(field, places) for field in value.fields)
    # Of constants and the like the type alone: what they are, their neighbours tell.
    return f"{type(value).__name__} {getattr(value, 'ty', '')}"


def _key(call: relax.Call, places: Mapping[relax.Var, Place]) -> Any:
    """A call's function and arguments, as the module before names them."""
    arguments = tuple(_place(argument, places) for argument in call.args[1])
    return _name(call), arguments


def _taken(known: dict[Any, list[relax.Var]], key: Any) -> relax.Var | None:
    """A binding of the module before; of equal ones each once, and the last for any more."""
    found = known.get(key, [])
    if not found:
        return None
    return found.pop(0) if len(found) > 1 else found[0]


def _name(call: relax.Call) -> str:
    return str(call.args[0].name_hint)


def _moved(arguments: Iterable[Any], result: Any) -> int:
    """Bytes of what is read and of what is written."""
    return sum(_size(argument.ty) for argument in arguments) + _size(result.ty)


def _size(kind: Any) -> int:
    if isinstance(kind, relax.TupleType):
        return sum(map(_size, kind.fields))
    shape = getattr(kind, "shape", None)
    if shape is None or not hasattr(shape, "values"):
        return 0
    return size_in_bytes([as_extent(extent) for extent in shape.values], str(kind.dtype))
