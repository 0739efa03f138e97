"""Explanations as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from relay_layout.explanation.words import shown

if TYPE_CHECKING:
    from relay_layout.explanation.facts import Alternative, Explanation, NodeExplanation, TransformFact

MODELLED = "modelled"
"""Of times that are not said to come from a record."""

_MOST_TRANSFORMS = 20


def of_function(explanation: Explanation) -> str:
    """A table of the operators, and what they cost together."""
    rows = [["", "binding", "operator", "kind", "layouts", "us", ""]]
    for fact in explanation.operators:
        remarks = [f"after {shown(each.value)} {each.source} -> {each.target}" for each in fact.transforms]
        rows.append(
            [
                str(fact.index),
                shown(fact.name),
                fact.operator or "-",
                fact.kind,
                layouts(fact.operands, fact.results),
                f"{fact.microseconds:.1f}",
                "; ".join([*remarks, *([fact.reason] if fact.reason else [])]),
            ]
        )
    lines = [columns(rows, right=(0, 5))] if explanation.operators else []
    if explanation.others:
        lines.append(f"{counted(explanation.others, 'other operator')}, which only their own layouts reach")
    moved = sum(each.bytes for each in explanation.transforms)
    spent = sum(each.microseconds for each in explanation.transforms)
    on_record = Counter(each.priced for each in explanation.transforms if each.priced != MODELLED)
    lines.append(
        f"{counted(len(explanation.transforms), 'transform')} left to run"
        + (f", {moved} bytes, {spent:.1f} us" if explanation.transforms else "")
        + "".join(f", {count} {source}" for source, count in on_record.items())
    )
    lines.append(_verdict(explanation))
    return "\n".join(lines)


def of_node(explanation: NodeExplanation) -> str:
    """One operator: its layouts, the alternatives, the transforms around it, and what is in its way."""
    fact = explanation.operator
    lines = [f"{shown(fact.name)}, operator {fact.index}: {fact.operator or 'not an operator'}, {fact.kind}"]
    tensors = [
        ("operand", explanation.operand_names, fact.operands),
        ("result", explanation.result_names, fact.results),
    ]
    sides = [
        [kind, shown(name), layout]
        for kind, names, layouts in tensors
        for name, layout in zip(names, layouts, strict=True)
    ]
    lines += [columns([["", *side] for side in sides]), f"  estimated {fact.microseconds:.1f} us"]
    if fact.reason:
        lines.append(f"  reason: {fact.reason}")
    lines.append("alternatives")
    lines.append(
        columns(
            [
                ["", layouts(each.operands, each.results), f"{each.microseconds:.1f} us", difference(each)]
                for each in explanation.alternatives
            ],
            right=(2,),
        )
    )
    if explanation.transforms:
        lines.append("transforms around it")
        lines += [f"  {_transform(each, fact.name)}" for each in explanation.transforms[:_MOST_TRANSFORMS]]
        if len(explanation.transforms) > _MOST_TRANSFORMS:
            lines.append(f"  and {len(explanation.transforms) - _MOST_TRANSFORMS} more")
    if explanation.obstacles:
        lines.append("layouts it cannot have")
        lines += [f"  {each.layout} for {shown(each.value)}: {each.reason}" for each in explanation.obstacles]
    lines.append(_verdict(explanation))
    return "\n".join(lines)


def _verdict(explanation: Explanation | NodeExplanation) -> str:
    return f"choice {explanation.solver_status}, {explanation.objective_us:.1f} us estimated in all"


def difference(alternative: Alternative) -> str:
    """What the whole function would cost more with an alternative."""
    if alternative.chosen:
        return "chosen"
    if alternative.more_us is None or alternative.more_transforms is None:
        return "not worked out: there was no time left"
    # Adding nought turns a rounded -0.0 into 0.0.
    parts = [f"{round(alternative.more_us, 1) + 0.0:+.1f} us for the whole function"]
    if alternative.more_transforms:
        kind = "more" if alternative.more_transforms > 0 else "fewer"
        count = abs(alternative.more_transforms)
        parts.append(f"{count} {kind} transform{'' if count == 1 else 's'}")
    return ", ".join(parts)


def _transform(transform: TransformFact, own: str) -> str:
    others = [shown(reader) for reader in transform.readers if reader != own]
    shared = f", for {', '.join(others)}" if others else ""
    if others and own in transform.readers:
        shared = f", shared with {', '.join(others)}"
    return (
        f"{shown(transform.value)}  {transform.source} -> {transform.target}  "
        f"{transform.bytes} bytes, {transform.microseconds:.1f} us"
        f"{'' if transform.priced == MODELLED else f' {transform.priced}'}{shared}"
    )


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


def columns(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Columns two spaces apart, those of ``right`` aligned at their ends."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
