"""What ``explain`` returns, of a function and of one operator: values, and how they read as text."""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from relay_layout.columns import columns
from relay_layout.explanation.facts import Alternative, Obstacle, OperatorFact, TransformFact
from relay_layout.explanation.words import counted, layouts, shown

_MODELLED = "modelled"
"""The source of times that are not said to come from a record."""

_MOST_TRANSFORMS = 20


@dataclass(frozen=True)
class Explanation:
    """Every operator that chooses or carries a layout, and what the whole function costs.

    ``others`` counts operators that no layout but their own reaches.
    """

    operators: tuple[OperatorFact, ...]
    others: int
    transforms: tuple[TransformFact, ...]
    solver_status: str
    objective_us: float

    def to_dict(self) -> dict[str, Any]:
        """The fields, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return _of_function(self)


@dataclass(frozen=True)
class NodeExplanation:
    """Everything about one operator.

    ``transforms`` are those of its operands and of its results. ``reason`` of ``operator`` is what keeps it
    in its own layouts; ``obstacles`` are layouts that it cannot have.
    """

    operator: OperatorFact
    operand_names: tuple[str, ...]
    result_names: tuple[str, ...]
    alternatives: tuple[Alternative, ...]
    transforms: tuple[TransformFact, ...]
    obstacles: tuple[Obstacle, ...]
    solver_status: str
    objective_us: float

    def to_dict(self) -> dict[str, Any]:
        """The fields, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return _of_node(self)


def _of_function(explanation: Explanation) -> str:
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
    on_record = Counter(each.priced for each in explanation.transforms if each.priced != _MODELLED)
    lines.append(
        f"{counted(len(explanation.transforms), 'transform')} left to run"
        + (f", {moved} bytes, {spent:.1f} us" if explanation.transforms else "")
        + "".join(f", {count} {source}" for source, count in on_record.items())
    )
    lines.append(_verdict(explanation))
    return "\n".join(lines)


def _of_node(explanation: NodeExplanation) -> str:
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
        f"{'' if transform.priced == _MODELLED else f' {transform.priced}'}{shared}"
    )
