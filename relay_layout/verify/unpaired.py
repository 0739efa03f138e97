"""What is said of a converted call that means no original one."""

from collections.abc import Container, Mapping, Sequence

from relay_layout.graph import Node
from relay_layout.verify.comparing import Mismatch, by_origin
from relay_layout.verify.meanings import without_meaning
from relay_layout.verify.movement import is_lowered
from relay_layout.verify.originals import Held, Originals, root_key


def unpaired_problem(
    node: Node,
    held: Sequence[Held],
    errors: Mapping[Node, Mismatch],
    originals: Originals,
    matched: Container[Node],
) -> str:
    """What is wrong with a converted call whose operands hold ``held``.

    It is said of the original call that it was most likely. ``errors`` are those of the calls that were
    tried, ``matched`` the original calls that others mean.
    """
    old = originals.called(node.operator, node.name) or next(
        (each for each in originals.nodes if each.operator == node.operator and each not in matched), None
    )
    if old is not None and old in errors:
        return _with_origins(errors[old], held) + without_meaning(node.operator)
    if errors:
        unmatched = [other for other in errors if other not in matched]
        return _with_origins(errors[(unmatched or list(errors))[0]], held)
    if old is not None and len(old.operands) == len(held):
        for value, new, original in zip(node.operands, held, old.operands, strict=True):
            expected = originals.held(original)
            if root_key(new) != root_key(expected):
                found = "without elements" if new.root.is_empty else f"as '{new.root.name}'"
                by = by_origin(value.name, new.origin)
                return f"tensor '{value.name}' is provided {found}{by}, expected '{expected.root.name}'"
    shown = [
        f"'{value.name}'{by_origin(value.name, new.origin)}"
        for value, new in zip(node.operands, held, strict=True)
    ]
    operands = ", ".join(shown) or "nothing"
    if not is_lowered(node):
        return f"TVM cannot invert its index map for {operands} of shape {node.operands[0].shape}"
    return f"the original function has no such operator on {operands}, expected one"


def _with_origins(mismatch: Mismatch, held: Sequence[Held]) -> str:
    """A message that also says which bindings decided how the operands lie."""
    text = str(mismatch)
    if text.startswith(("attribute", "arguments")):
        return text
    origins = dict.fromkeys(name for entry in held if entry.root.constant is None for name in entry.origin)
    names = [f"'{name}'" for name in origins if f"'{name}'" not in text]
    return f"{text}; operands lie as {', '.join(names)} made them" if names else text
