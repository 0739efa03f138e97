"""What is different between two reports: layouts, transforms, kernels and times."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from relay_layout.columns import columns
from relay_layout.errors import InputError
from relay_layout.explanation.words import layouts, shown
from relay_layout.report.schema import Call, Node, Report, Target, Transform
from relay_layout.report.text import kernel_words, target_words

NOTABLE_SHARE, NOTABLE_US = 0.05, 1.0
"""A time has changed where it is this share, and this many microseconds, more or less."""

_MOST_ROWS = 40


class Changed(TypedDict):
    """An operator on either side."""

    name: str
    operator: str
    before: str
    after: str


class ChangedKernel(Changed):
    """A kernel, by the first operator that it computes; microseconds are measured, else estimated."""

    before_us: float | None
    after_us: float | None


class Difference(TypedDict):
    """From one report to another; ``totals`` are pairs."""

    targets: list[str]
    totals: dict[str, list[float | None]]
    layouts: list[Changed]
    kernels: list[ChangedKernel]
    transforms_gone: list[Transform]
    transforms_new: list[Transform]
    operators_gone: list[str]
    operators_new: list[str]


def difference(before: Target, after: Target) -> Difference:
    """What changed from ``before`` to ``after``, operators being known by their names."""
    old, new = _operators(before), _operators(after)
    both = [name for name in old if name in new]
    return Difference(
        targets=[target_words(before), target_words(after)],
        totals=_totals(before, after),
        layouts=[_changed_layouts(old[name], new[name]) for name in both if _differ(old[name], new[name])],
        kernels=_changed_kernels(before, after, both),
        transforms_gone=_without(before["transforms"], after["transforms"]),
        transforms_new=_without(after["transforms"], before["transforms"]),
        operators_gone=[name for name in old if name not in new],
        operators_new=[name for name in new if name not in old],
    )


def pairs(before: Report, after: Report, names: Sequence[str] = ()) -> list[tuple[Target, Target]]:
    """The targets to compare: the two of ``names``, else the only ones, else those of the same name.

    InputError where there are none.
    """
    old = {target["name"]: target for target in before["targets"]}
    new = {target["name"]: target for target in after["targets"]}
    if names:
        for name, known in zip(names, (old, new), strict=True):
            if name not in known:
                raise InputError(f"--targets: the report has no target {name}, only {', '.join(known)}")
        return [(old[names[0]], new[names[1]])]
    if len(old) == len(new) == 1:
        return list(zip(old.values(), new.values(), strict=True))
    common = [(old[name], new[name]) for name in old if name in new]
    if not common:
        raise InputError("the reports have no target in common; name one of each with --targets A,B")
    return common


def text_of(found: Difference) -> str:
    """A difference for people."""
    lines = [f"{found['targets'][0]} -> {found['targets'][1]}"]
    rows = [["", name.replace("_", " "), *map(_number, pair)] for name, pair in found["totals"].items()]
    lines.append(columns(rows, right=(2, 3)))
    lines += _section("layouts", [_row(each) for each in found["layouts"]])
    lines += _section("kernels", [_kernel(each) for each in found["kernels"]])
    for title, transforms in (
        ("transforms gone", found["transforms_gone"]),
        ("transforms new", found["transforms_new"]),
    ):
        lines += _section(title, [_transform(each) for each in transforms])
    both = (("operators gone", found["operators_gone"]), ("operators new", found["operators_new"]))
    for title, names in both:
        lines += _section(title, [[shown(name)] for name in names])
    if len(lines) == 2:
        lines.append("layouts, kernels and transforms are the same")
    return "\n".join(lines)


def _section(title: str, rows: Sequence[Sequence[str]]) -> list[str]:
    if not rows:
        return []
    rest = [f"  and {len(rows) - _MOST_ROWS} more; --json has all"] if len(rows) > _MOST_ROWS else []
    return [f"{title}: {len(rows)}", columns([["", *row] for row in rows[:_MOST_ROWS]]), *rest]


def _row(each: Changed) -> list[str]:
    return [shown(each["name"]), each["operator"], each["before"], "->", each["after"]]


def _kernel(each: ChangedKernel) -> list[str]:
    sides = (each["before"], _number(each["before_us"])), (each["after"], _number(each["after_us"]))
    return [shown(each["name"]), *sides[0], "->", *sides[1], "us"]


def _transform(each: Transform) -> list[str]:
    way = f"{each['source']} -> {each['target']}"
    return [shown(each["value"]), way, f"{each['bytes']} bytes", f"{each['microseconds']:.1f} us"]


def _operators(target: Target) -> dict[str, Node]:
    return {node["name"]: node for node in target["nodes"] if node["type"] == "operator"}


def _totals(before: Target, after: Target) -> dict[str, list[float | None]]:
    def pair(value: Any) -> list[float | None]:
        return [value(before), value(after)]

    return {
        "transforms": pair(lambda target: len(target["transforms"])),
        "transform_bytes": pair(lambda target: sum(each["bytes"] for each in target["transforms"])),
        "estimated_us": pair(lambda target: target["solver"]["objective_us"]),
        "measured_us": pair(lambda target: target["profile"] and target["profile"]["run_us"]),
        "calls": pair(lambda target: len(target["calls"])),
        "tuned_kernels": pair(lambda target: sum(call["source"] == "tuned" for call in target["calls"])),
        "storage_bytes": pair(lambda target: target["memory"]["storage_bytes"]),
    }


def _differ(old: Node, new: Node) -> bool:
    return old["after"] != new["after"]


def _changed_layouts(old: Node, new: Node) -> Changed:
    return Changed(name=old["name"], operator=old["operator"], before=_sides(old), after=_sides(new))


def _sides(node: Node) -> str:
    return layouts(node["after"]["operands"], node["after"]["results"])


def _changed_kernels(before: Target, after: Target, names: Sequence[str]) -> list[ChangedKernel]:
    """By the first operator of each call of ``before``, those that changed most first."""
    old, new = _calls(before), _calls(after)
    operators = _operators(before)
    measured = before["profile"] is not None and after["profile"] is not None
    found = []
    for call in before["calls"]:
        name = next(iter(call["operators"]), "")
        other = new.get(name)
        if name not in names or other is None or old[name] is not call:
            continue
        times = _us(call, measured), _us(other, measured)
        same = (kernel_words(call), call["knobs"]) == (kernel_words(other), other["knobs"])
        if same and not _changed(*times):
            continue
        words = kernel_words(call), kernel_words(other)
        if words[0] == words[1] and not same:
            words = words[0], f"{words[1]}, other knobs"
        found.append(
            ChangedKernel(
                name=name,
                operator=operators[name]["operator"],
                before=words[0],
                after=words[1],
                before_us=times[0],
                after_us=times[1],
            )
        )
    found.sort(key=lambda each: -abs((each["before_us"] or 0.0) - (each["after_us"] or 0.0)))
    return found


def _calls(target: Target) -> Mapping[str, Call]:
    return {name: call for call in target["calls"] for name in call["operators"]}


def _us(call: Call, measured: bool) -> float | None:
    return call["measured_us"] if measured else call["estimate_us"]


def _changed(before: float | None, after: float | None) -> bool:
    if before is None or after is None:
        return before is not after
    return abs(after - before) > max(NOTABLE_US, NOTABLE_SHARE * max(before, after))


def _without(transforms: Sequence[Transform], others: Sequence[Transform]) -> list[Transform]:
    known = {(each["value"], each["source"], each["target"]) for each in others}
    return [each for each in transforms if (each["value"], each["source"], each["target"]) not in known]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}" if isinstance(value, float) else str(value)
