"""Loops and choices as functions of the virtual machine that call their bodies.

The virtual machine has functions and branches, and no loops: a loop is a function that calls itself, and a
call under way keeps its frame and all that it holds. So loops run in pieces of 1, 1, 2, 4, 8 and more trips,
each of which is twice the one of half its size; a piece ends early where no trip follows. Calls nest as
deep as the logarithm of the number of trips, and rows of both halves are joined, so that each row is copied
as often as that at most.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import tvm
from tvm import relax
from tvm_ffi import structural_map

from relay_layout.bodies import OTHERWISE, STATES, STEP, join_name, kind_of, name_called
from relay_layout.ir import Expression, erased, function_attributes, input_count

_PIECES = 32
"""Sizes of pieces, the largest of 2**31 trips; the last one follows itself for more."""


class Drivers:
    """Functions that only call others and choose, by name in ``functions``.

    Calls go to variables that say nothing of what a function takes, and only which tensors it gives.
    """

    def __init__(self) -> None:
        self.functions: dict[str, relax.Function] = {}
        self._symbols: dict[str, tvm.ir.GlobalVar] = {}

    def declare(self, name: str, result: Any) -> None:
        """Let calls of ``name`` give a value of the type ``result``, whatever they are given."""
        self._symbols[name] = tvm.ir.GlobalVar(name)
        kind = relax.FuncType.opaque_func(ret=result, purity=True)
        relax.expr._update_type(self._symbols[name], kind)

    def symbol(self, name: str) -> tvm.ir.GlobalVar:
        """The variable of a declared function."""
        return self._symbols[name]

    def linked(self, function: relax.Function) -> relax.Function:
        """The function whose calls of loops and choices as code are calls of the functions declared."""

        def link(call: relax.Call) -> relax.Call:
            name = name_called(call)
            if name not in self._symbols:
                return call
            return relax.Call(self._symbols[name], list(call.args[1:]), None, [])

        return structural_map(function, (relax.Call, link))

    def drive(self, name: str, bodies: Mapping[str, relax.Function], called: Mapping[str, str]) -> None:
        """Write the function ``name``, which runs the body of that name and those that belong to it.

        ``called`` are the names under which bodies are declared.
        """
        if kind_of(bodies[name]) == STEP:
            self._loop(name, bodies[name], called)
        else:
            self._choice(name, bodies, called)

    def _choice(self, name: str, bodies: Mapping[str, relax.Function], called: Mapping[str, str]) -> None:
        """Both branches take the same tensors; weights of the first go before those of the second."""
        other = str(function_attributes(bodies[name])[OTHERWISE])
        shared = input_count(bodies[name])
        taken = [_parameters(bodies[each]) for each in (name, other)]
        condition = relax.Var("condition", relax.TensorType([], "bool"))
        given = taken[0][:shared]
        parameters = [condition, *taken[0], *taken[1][shared:]]
        with _Function(self, name, parameters) as builder:
            sides = [
                lambda: builder.call(called[name], taken[0]),
                lambda: builder.call(called[other], [*given, *taken[1][shared:]]),
            ]
            builder.choose(condition, *sides)

    def _loop(self, name: str, step: relax.Function, called: Mapping[str, str]) -> None:
        states = int(function_attributes(step)[STATES])
        result = erased(step.ret_ty)
        fixed = 2 + states
        rows = len(result.fields) - fixed
        join = called.get(join_name(name), "")
        pieces = [called[name], *(f"{name}_piece_{size}" for size in range(1, _PIECES))]
        grown = [f"{name}_from_{size}" for size in range(_PIECES)]
        for each in (*pieces[1:], *grown):
            self.declare(each, result)

        def twice(piece: str, first: str, second: str) -> None:
            parameters = _parameters(step)
            captured = parameters[1 + states :]
            with _Function(self, piece, parameters) as builder:
                found = builder.items(builder.call(first, parameters))

                def follow() -> Expression:
                    after = builder.items(builder.call(second, [*found[1:fixed], *captured]))
                    if not rows:
                        return relax.Tuple(after)
                    whole = builder.items(builder.call(join, [*found[fixed:], *after[fixed:]]))
                    return relax.Tuple([*after[:fixed], *whole])

                builder.choose(found[0], follow, lambda: relax.Tuple(found))

        for size in range(1, _PIECES):
            twice(pieces[size], pieces[size - 1], pieces[size - 1])
        for size in range(_PIECES):
            twice(grown[size], pieces[size], grown[min(size + 1, _PIECES - 1)])
        parameters = _parameters(step)
        alive = relax.Var("alive", relax.TensorType([], "bool"))
        empty = [relax.Var(f"empty_{place}", kind) for place, kind in enumerate(result.fields[fixed:])]
        with _Function(self, name, [alive, *empty, *parameters]) as builder:
            unchanged = relax.Tuple([alive, *parameters[: 1 + states], *empty])
            builder.choose(alive, lambda: builder.call(grown[0], parameters), lambda: unchanged)


class _Function:
    """A function as it is written: calls, and a choice as the last thing it does."""

    def __init__(self, drivers: Drivers, name: str, parameters: Sequence[relax.Var]) -> None:
        self._drivers = drivers
        self._name = name
        self._builder = relax.BlockBuilder()
        self._scope = self._builder.function(name, list(parameters), private=True)

    def __enter__(self) -> "_Function":
        self._scope.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._scope.__exit__(*error)
        if error[0] is None:
            self._drivers.functions[self._name] = self._builder.finalize()[self._name]

    def call(self, name: str, arguments: Sequence[Expression]) -> relax.Var:
        """Call a declared function."""
        return self._builder.emit(relax.Call(self._drivers.symbol(name), list(arguments), None, []))

    def items(self, value: relax.Var) -> list[relax.Var]:
        """The tensors of a tuple."""
        return [self._builder.emit(relax.TupleGetItem(value, place)) for place in range(len(value.ty.fields))]

    def choose(self, condition: relax.Var, positive: Any, negative: Any) -> None:
        """Give what ``positive`` makes where ``condition`` holds, and what ``negative`` makes elsewhere."""
        sides = []
        for make in (positive, negative):
            self._builder._begin_binding_block()
            result = self._builder.emit(make())
            sides.append(relax.SeqExpr([self._builder._end_block()], result))
        self._builder.emit_func_output(self._builder.emit(relax.If(condition, *sides)))


def _parameters(function: relax.Function) -> list[relax.Var]:
    return [relax.Var(str(each.name), erased(each.ty)) for each in function.params]
