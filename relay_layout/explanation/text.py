"""Layouts, counts and columns as text."""

from collections.abc import Sequence


def layouts(operands: Sequence[str], results: Sequence[str]) -> str:
    """Equal layouts in a row are written once, so that a concat of many stays readable."""
    return f"{_shortened(operands)} -> {_shortened(results)}"


def _shortened(layouts: Sequence[str]) -> str:
    parts: list[list[str]] = []
    for layout in layouts:
        if parts and parts[-1][0] == layout:
            parts[-1].append(layout)
        else:
            parts.append([layout])
    return ", ".join(part[0] if len(part) == 1 else f"{len(part)} x {part[0]}" for part in parts) or "nothing"


def counted(count: int, noun: str) -> str:
    """``1 transform``, ``2 transforms``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
