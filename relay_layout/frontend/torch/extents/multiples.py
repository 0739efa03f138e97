"""Sizes that are multiples, where the guards of a program leave no others.

Where an image meets what was halved and doubled of it, ``torch.export`` notes that ``h == 2 * (h // 2)`` and
takes both for equal from there on, while ``h`` stays any size in the program. Of an image that is viewed as
windows it notes that ``h % (h // 4) == 0`` and ``h // (h // 4) == 4``. TVM has no such notes: it is given an
input of ``2 * h`` or ``4 * h`` rows, as if the program had been exported so.
"""

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from tvm import tirx

from relay_layout.frontend.extents.residues import ALL, Residues, equal_residues
from relay_layout.frontend.torch.arguments import all_names, input_tensors, open_sizes
from relay_layout.frontend.torch.extents.guards import rewritten

_OPERATIONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: lambda one, other: one + other,
    ast.Sub: lambda one, other: one - other,
    ast.Mult: lambda one, other: one * other,
    ast.FloorDiv: tirx.floordiv,
    ast.Mod: tirx.floormod,
}
_EXTREMES: dict[str, Callable[[Any, Any], Any]] = {"max": tirx.max, "min": tirx.min}


def ask_for_multiples(program: Any) -> list[str]:
    """Let inputs of a decomposed program have extents such as ``2 * s`` where guards leave no other sizes.

    TVM reads the extents of inputs alone, and infers all others. Gives conditions for these sizes, such as
    ``x.shape[2] % 8 == 0``. An extent that export has found to be fixed, of which it leaves a symbol that
    prints as its number, becomes the number.
    """
    symbols = open_sizes(program)
    residues = _residues(program, all_names(program), symbols)
    for node in input_tensors(program):
        shape = [
            _asked(extent, residues.get(symbols.get((node.name, axis), ""), ALL))
            for axis, extent in enumerate(node.meta["val"].shape)
        ]
        node.meta["tensor_meta"] = SimpleNamespace(shape=shape, dtype=node.meta["val"].dtype)
    # Of what the data decide the least and the most are no extents of inputs.
    program._range_constraints = {
        symbol: _of_quotients(bounds, residues.get(str(symbol), ALL))
        for symbol, bounds in program.range_constraints.items()
        if not free_unbacked_symbols(symbol)
    }
    places = {symbol: f"{name}.shape[{axis}]" for (name, axis), symbol in symbols.items()}
    return [f"{places[symbol]} % {divisor} == {rest}" for symbol, (divisor, rest) in residues.items()]


def _asked(extent: Any, residues: Residues) -> Any:
    """An extent as an input has it."""
    if isinstance(extent, int) or str(extent).isdigit():
        return int(extent)
    return extent if residues == ALL else residues.divisor * extent + residues.rest


def _of_quotients(bounds: Any, residues: Residues) -> Any:
    """The range of the quotients of sizes from that of the sizes."""
    divisor, rest = residues
    least, most = -((rest - bounds.lower) // divisor), bounds.upper
    return type(bounds)(least, (most - rest) // divisor if most.is_Integer else most)


def _residues(
    program: Any, names: Sequence[str], symbols: Mapping[tuple[str, int], str]
) -> dict[str, Residues]:
    """What divisions of sizes leave, by symbol, where guards ask for anything."""
    sizes = {symbol: tirx.Var(symbol, "int64") for symbol in symbols.values()}
    found: dict[str, Residues] = {}
    equalities = [*_equalities(getattr(program, "_guards_code", None) or (), names)]
    for left, right in [*equalities, *_exact_quotients(equalities)]:
        try:
            sides = [_expression(side, symbols, sizes) for side in (left, right)]
        except ValueError:
            continue
        variables = {variable for side in sides for variable in tirx.analysis.undefined_vars(side)}
        if len(variables) == 1:
            symbol = str(next(iter(variables)).name)
            known = found.get(symbol, ALL)
            residues = equal_residues(sides[0], sides[1], known)
            if residues is not None and residues != known:
                found[symbol] = residues
    return found


def _equalities(guards: Iterable[str], names: Sequence[str]) -> Iterable[tuple[ast.AST, ast.AST]]:
    for guard in guards:
        try:
            text = rewritten(guard, names)
        except (ValueError, SyntaxError):
            continue
        match ast.parse(text, mode="eval").body:
            case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
                yield left, right


def _exact_quotients(equalities: Sequence[tuple[ast.AST, ast.AST]]) -> Iterable[tuple[ast.AST, ast.AST]]:
    """``a == n * b`` for equalities ``a // b == n``, where another one is ``a % b == 0``."""
    exact = set()
    for sides in equalities:
        match sides:
            case ast.BinOp(left=dividend, op=ast.Mod(), right=divisor), ast.Constant(value=0):
                exact.add((ast.dump(dividend), ast.dump(divisor)))
    for sides in equalities:
        match sides:
            case ast.BinOp(left=dividend, op=ast.FloorDiv(), right=divisor), ast.Constant() as quotient if (
                ast.dump(dividend),
                ast.dump(divisor),
            ) in exact:
                yield dividend, ast.BinOp(quotient, ast.Mult(), divisor)


def _expression(node: ast.AST, symbols: Mapping[tuple[str, int], str], sizes: Mapping[str, tirx.Var]) -> Any:
    """Sizes and integers, as TVM writes them; ValueError for anything else."""

    def of(inner: ast.AST) -> Any:
        return _expression(inner, symbols, sizes)

    match node:
        case ast.Constant(value=int(number)):
            return tirx.const(number, "int64")
        case ast.Subscript(
            value=ast.Attribute(value=ast.Name(id=name), attr="shape"), slice=ast.Constant(value=int(axis))
        ) if (name, axis) in symbols:
            return sizes[symbols[name, axis]]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return 0 - of(operand)
        case ast.BinOp(left=left, op=operation, right=right) if type(operation) in _OPERATIONS:
            return _OPERATIONS[type(operation)](of(left), of(right))
        case ast.Call(func=ast.Name(id=name), args=[one, other]) if name in _EXTREMES:
            return _EXTREMES[name](of(one), of(other))
    raise ValueError(ast.unparse(node))
