"""The old target strings of a script, where it is plain what takes them."""

import ast
from collections.abc import Iterator

from relay_layout.port.bases import Bases
from relay_layout.port.names import NO_KERNELS, RELAY
from relay_layout.port.script import Script
from relay_layout.port.targets import is_target_string, literal, target_fields

_TARGET = "tvm.target.Target"
_DEVICES = ("tvm.device", "tvm.device_from_target")
_KEYWORDS = ("target", "host", "target_host")
_TAKE_TARGETS = (_TARGET, *_DEVICES, "tvm.build", "tvm.compile", "tvm.lower", "tvm.relax.build")
"""Of TVM, what the old strings are no targets for any more."""

_OURS = (
    f"{RELAY}.build",
    f"{RELAY}.build_module",
    f"{RELAY}.create_executor",
    f"{RELAY}.vm",
    f"{RELAY}.autotvm",
    f"{RELAY}.auto_scheduler",
)
"""Of this package, what takes the old strings."""

_WITHOUT_KERNELS = frozenset(["ext_dev", "hexagon", "metal", "opencl", "rocm", "vulkan", "webgpu"])


def port_target_strings(script: Script, bases: Bases) -> None:
    """Rewrites target strings with options as dictionaries, and notes those that are used in other ways.

    In a call of ``tvm.target.Target`` the dictionary takes the string's place. Elsewhere a target does, so
    that it can be used as before: in other calls of TVM, and in assignments to names that are used for
    nothing else but to be printed. Relay's own functions still take the string, so that it may stay wherever
    it stands in a script that gives targets to nothing else.
    """
    calls = [node for node in script.nodes if isinstance(node, ast.Call)]
    arguments = {id(argument): user for call in calls for argument, user in _arguments(script, call)}
    ours_alone = any(map(script.uses, _OURS)) and not _gives_targets_to_tvm(script, calls)
    assigned = {
        id(node.value): node.targets[0]
        for node in script.nodes
        if isinstance(node, ast.Assign) and len(node.targets) == 1
    }
    prose = {id(node.value) for node in script.nodes if isinstance(node, ast.Expr)}
    if script.uses(RELAY):
        _note_kinds(script, arguments)
    for node in script.nodes:
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in prose:
            continue
        if id(node) in script.done or not is_target_string(node.value):
            continue
        users = _users(script, node, assigned.get(id(node)), arguments)
        if users and all(user is not None and user.startswith(f"{RELAY}.") for user in users):
            continue
        if ours_alone and not users:
            continue
        fields = target_fields(node.value)
        start, end = script.source.span(node)
        if fields is None:
            kind = node.value.split()[0]
            why = f'TVM 0.27 takes targets as dicts; give tvm.target.Target({{"kind": "{kind}", ...}})'
            script.note(node, node.value, why)
        elif not users or "\n" in script.source.text[start:end] or script.is_in_text(node):
            why = f"TVM 0.27 takes targets as dicts; give tvm.target.Target({literal(fields)})"
            script.note(node, node.value, why)
        elif arguments.get(id(node)) == _TARGET:
            script.replace(start, end, literal(fields))
        else:
            script.replace(start, end, f"{bases.spell(_TARGET, node)}({literal(fields)})")


def _note_kinds(script: Script, arguments: dict[int, str | None]) -> None:
    """Notes targets of Relay's that nothing is built for here."""
    for node in script.nodes:
        today = arguments.get(id(node)) or ""
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        kind = node.value.strip().partition(" ")[0]
        if kind in _WITHOUT_KERNELS and (today == _TARGET or today.startswith(f"{RELAY}.")):
            script.note(node, kind, NO_KERNELS)


def _users(
    script: Script, node: ast.Constant, variable: ast.expr | None, arguments: dict[int, str | None]
) -> list[str | None]:
    """Today's names of all functions that a string is given to; none if it is used in other ways too."""
    if id(node) in arguments:
        return [] if arguments[id(node)] == "print" else [arguments[id(node)]]
    if not isinstance(variable, ast.Name):
        return []
    owner = script.scopes.of(variable).owner(variable.id)
    uses = [
        id(use)
        for use in script.nodes
        if isinstance(use, ast.Name)
        and isinstance(use.ctx, ast.Load)
        and use.id == variable.id
        and script.scopes.of(use).owner(variable.id) is owner
    ]
    if not all(use in arguments for use in uses):
        return []
    return [arguments[use] for use in uses if arguments[use] != "print"]


def _arguments(script: Script, call: ast.Call) -> Iterator[tuple[ast.expr, str | None]]:
    """What calls of TVM, of this package and of ``print`` are given, with today's name of the function."""
    if script.chain(call.func) is None:
        if isinstance(call.func, ast.Name) and call.func.id == "print" and "print" in script.unbound:
            yield from ((argument, "print") for argument in call.args)
        return
    today = _today(script, call)
    for argument in (*call.args, *(keyword.value for keyword in call.keywords if keyword.arg in _KEYWORDS)):
        yield argument, today
        if today in _DEVICES and isinstance(argument, ast.Call) and len(argument.args) == 1:
            # tvm.device(str(target)): what that writes, TVM reads.
            yield argument.args[0], today


def _gives_targets_to_tvm(script: Script, calls: list[ast.Call]) -> bool:
    """Whether functions of TVM that take targets are given something that is not written there."""
    return any(
        _today(script, call) in _TAKE_TARGETS
        and any(not isinstance(argument, ast.Constant) for argument, _ in _arguments(script, call))
        for call in calls
    )


def _today(script: Script, call: ast.Call) -> str | None:
    chain = script.chain(call.func)
    return None if chain is None else script.today(chain.old)
