"""What scripts ask of ``module["main"]`` and its parameters: today they are TVM's, with other words."""

import ast

from relay_layout.port.script import Script

_OF_PARAMETERS = {"checked_type": "ty", "name_hint": "name", "type_annotation": "ty"}
_OF_FUNCTIONS = {"checked_type": "ty", "ret_type": "ret_ty"}
_CONCRETE = "concrete_shape"
"""A type's attribute: its shape as numbers, which TVM's types have as expressions alone."""


def port_module_functions(script: Script) -> None:
    """Rewrites names and types that are plainly those of a module's function or of its parameters."""
    if not any(script.chain(node) for node in script.nodes if isinstance(node, ast.Name)):
        return
    for node in script.nodes:
        today = _today(script, node)
        if isinstance(node, ast.Attribute) and today is not None:
            start, end = script.source.span(node)
            script.replace(end - len(node.attr), end, today)
            if node.attr == _CONCRETE:
                script.insert(start, "tuple(map(int, ")
                script.insert(end, "))")
    for node in script.misplaced:
        today = _today(script, node)
        if isinstance(node, ast.Attribute) and today is not None:
            why = f"{today} today; rewrite this f-string by hand"
            script.note(script.text_around(node), node.attr, why)


def _today(script: Script, node: ast.AST) -> str | None:
    """Today's word for an attribute of a module's function or of its parameters; None for others."""
    if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load):
        return None
    if node.attr == _CONCRETE:
        return "shape" if _today(script, node.value) == "ty" else None
    if _is_parameter(script, node.value):
        return _OF_PARAMETERS.get(node.attr)
    return _OF_FUNCTIONS.get(node.attr) if _is_function(script, node.value) else None


def _is_parameter(script: Script, node: ast.expr) -> bool:
    """Whether a script plainly has one of the parameters of a module's function."""
    if isinstance(node, ast.Subscript):
        return not isinstance(node.slice, ast.Slice) and _is_parameters(script, node.value)
    if not isinstance(node, ast.Name):
        return False
    bindings = script.scopes.of(node).resolve(node.id)
    return bool(bindings) and all(
        (binding.element_of is not None and _is_parameters(script, binding.element_of))
        or (isinstance(binding.value, ast.Subscript) and _is_parameters(script, binding.value.value))
        for binding in bindings
    )


def _is_parameters(script: Script, node: ast.expr) -> bool:
    """Whether a script plainly has all parameters of a module's function, or some that follow each other."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        return _is_parameters(script, node.value)
    return isinstance(node, ast.Attribute) and node.attr == "params" and _is_function(script, node.value)


def _is_function(script: Script, node: ast.expr) -> bool:
    """Whether a script plainly has a module's function: a name of it is looked up, and nothing else."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)
    if not isinstance(node, ast.Name):
        return False
    bindings = script.scopes.of(node).resolve(node.id)
    return bool(bindings) and all(
        isinstance(binding.value, ast.Subscript) and _is_function(script, binding.value)
        for binding in bindings
    )
