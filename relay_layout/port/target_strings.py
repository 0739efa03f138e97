"""The old target strings of a script, where it is plain what takes them."""

import ast
from collections.abc import Iterator

from relay_layout.port.bases import Bases
from relay_layout.port.script import Script
from relay_layout.port.targets import is_target_string, literal, target_fields

_TARGET = "tvm.target.Target"
_KEYWORDS = ("target", "host", "target_host")


def port_target_strings(script: Script, bases: Bases) -> None:
    """Rewrites target strings with options as dictionaries, and notes those that are used in other ways.

    In a call of ``tvm.target.Target`` the dictionary takes the string's place. Elsewhere a target does, so
    that it can be used as before: in other calls of TVM, and in assignments to names that are used for
    nothing else.
    """
    calls = [node for node in script.nodes if isinstance(node, ast.Call) and script.chain(node.func)]
    arguments = {id(argument): call for call in calls for argument in _arguments(call)}
    assigned = {
        id(node.value): node.targets[0]
        for node in script.nodes
        if isinstance(node, ast.Assign) and len(node.targets) == 1
    }
    prose = {id(node.value) for node in script.nodes if isinstance(node, ast.Expr)}
    for node in script.nodes:
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in prose:
            continue
        if not is_target_string(node.value):
            continue
        fields = target_fields(node.value)
        start, end = script.source.span(node)
        if fields is not None and "\n" not in script.source.text[start:end]:
            call, name = arguments.get(id(node)), assigned.get(id(node))
            if call is not None:
                makes = _today(script, call) == _TARGET
                text = literal(fields)
                script.replace(start, end, text if makes else f"{bases.spell(_TARGET, call)}({text})")
                continue
            if isinstance(name, ast.Name) and _is_only_passed_on(script, name, set(arguments)):
                script.replace(start, end, f"{bases.spell(_TARGET, name)}({literal(fields)})")
                continue
        advice = f"tvm.target.Target({literal(fields)})" if fields is not None else "without the options gone"
        script.note(node, node.value, f"TVM 0.27 takes no target strings with options; give a dict: {advice}")


def _arguments(call: ast.Call) -> Iterator[ast.expr]:
    yield from call.args
    yield from (keyword.value for keyword in call.keywords if keyword.arg in _KEYWORDS)


def _today(script: Script, call: ast.Call) -> str | None:
    chain = script.chain(call.func)
    return None if chain is None else script.today(chain.old)


def _is_only_passed_on(script: Script, name: ast.Name, arguments: set[int]) -> bool:
    """Whether every use of the variable is an argument of a call of TVM's."""
    owner = script.scopes.of(name).owner(name.id)
    uses = [
        node
        for node in script.nodes
        if isinstance(node, ast.Name)
        and isinstance(node.ctx, ast.Load)
        and node.id == name.id
        and script.scopes.of(node).owner(name.id) is owner
    ]
    return all(id(use) in arguments for use in uses)


__all__ = ["port_target_strings"]
