"""Expressions in messages, cut to what a line holds."""

import re

_PARTS = re.compile(r"""input\((?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\)|.""", re.DOTALL)
"""Inputs whose names are quoted, which are cut nowhere, and letters."""

LONGEST = 120
"""Letters that an expression in a message has at most."""


def cut(text: str, longest: int = LONGEST) -> str:
    """An expression of at most ``longest`` letters, ``...`` in place of what its innermost parentheses hold.

    What is outside of all parentheses ends with ``...`` where that alone is longer.
    """
    if len(text) <= longest:
        return text
    parts = _PARTS.findall(text)
    depths, depth = [], 0
    for part in parts:
        depth -= part == ")"
        depths.append(depth)
        depth += part == "("
    for deepest in range(max(depths) - 1, -1, -1):
        found = _to_depth(parts, depths, deepest)
        if len(found) <= longest:
            return found
    return f"{_to_depth(parts, depths, 0)[: longest - 4].rstrip()} ..."


def _to_depth(parts: list[str], depths: list[int], deepest: int) -> str:
    kept: list[str] = []
    for part, depth in zip(parts, depths, strict=True):
        if depth <= deepest:
            kept.append(part)
        elif kept[-1] != "...":
            kept.append("...")
    return "".join(kept)
