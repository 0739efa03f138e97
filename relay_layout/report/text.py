"""A report for the terminal."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from relay_layout.columns import columns
from relay_layout.explanation.finding import place_of
from relay_layout.explanation.words import counted, layouts, shown
from relay_layout.report.rates import gflops, peak_share
from relay_layout.report.schema import Call, Node, OtherWay, Report, Sides, Target, Transform

_MOST_CALLS = 20


def of_report(report: Report, targets: Sequence[Target]) -> str:
    """Every target: its operators, transforms, kernels and memory."""
    heading = f"{shown(report['model'])}, relay-layout {report['relay_layout']}, TVM {report['tvm']}"
    return "\n\n".join([heading, *map(of_target, targets)])


def of_target(target: Target) -> str:
    """One target in full."""
    parts = [f"target {target_words(target)}", _operators(target)]
    if target["transforms"]:
        parts.append("\n".join(["transforms left to run", _transforms(target["transforms"])]))
    parts += [_kernels(target), _totals(target)]
    return "\n".join(parts)


def target_words(target: Target) -> str:
    """The name of a target, its processor and its threads."""
    processor = target["target"].get("mcpu") or target["target"].get("kind", "")
    threads = f", {counted(target['threads'], 'thread')}" if target["threads"] else ""
    return f"{shown(target['name'])} ({shown(str(processor))}{threads})"


def find(target: Target, name: str) -> Node:
    """The operator that a name, a part of one, or an index among the operators means. InputError for none."""
    operators = [node for node in target["nodes"] if node["type"] == "operator"]
    names = [node["name"] for node in operators]
    return operators[place_of(names, name)]


def of_operator(target: Target, node: Node) -> str:
    """One operator: its layouts, why, what else there was, what blocked it, and its kernel."""
    lines = [f"{shown(node['name'])}: {node['operator'] or 'not an operator'}, {node['how']}"]
    names = node["operand_names"]
    before, after = node["before"], node["after"]
    results = ["result"] * len(before["results"])
    tensors = [
        *zip(names, before["operands"], after["operands"], strict=False),
        *zip(results, before["results"], after["results"], strict=False),
    ]
    if tensors:
        rows = [["", shown(name), before, "->", after] for name, before, after in tensors]
        lines.append(columns(rows))
    if node["reason"]:
        lines.append(f"  reason: {node['reason']}")
    if node["moves_nothing"]:
        lines.append("  moves no data")
    lines.append("alternatives, the rest as chosen")
    lines.append(columns([_way(way) for way in node["alternatives"]], right=(2,)))
    around = _around(target, node)
    if around:
        lines += ["transforms around it", _transforms(around)]
    if node["refused"]:
        lines.append("layouts it cannot have")
        for each in node["refused"]:
            lines.append(f"  {each['layout']} for {shown(each['value'])}: {each['reason']}")
    lines.append(_kernel_of(target, node))
    return "\n".join(lines)


def kernel_words(call: Call) -> str:
    """Where the loops of a call come from, such as ``tuned direct``."""
    return " ".join(filter(None, [call["source"], call["algorithm"]]))


def _operators(target: Target) -> str:
    rows = [["", "binding", "operator", "kind", "layouts", "us", "kernel", ""]]
    operators = [node for node in target["nodes"] if node["type"] == "operator"]
    for place, node in enumerate(operators):
        call = None if node["call"] is None else target["calls"][node["call"]]
        first = call is not None and call["operators"][:1] == [node["name"]]
        taken = "" if call is None or not first else _us(call)
        kernel = ""
        if call is not None:
            kernel = kernel_words(call) if first else f"with {shown(call['operators'][0])}"
        rows.append(
            [
                str(place),
                shown(node["name"]),
                node["operator"] or "-",
                node["how"],
                _sides(node["after"]),
                taken,
                kernel,
                node["reason"] if node["how"] == "keeps its own" else "",
            ]
        )
    return columns(rows, right=(0, 5))


def _transforms(transforms: Sequence[Transform]) -> str:
    rows = [
        [
            "",
            shown(each["value"]),
            f"{each['source']} -> {each['target']}",
            f"{each['bytes']} bytes",
            f"{each['microseconds']:.1f} us",
            "for " + ", ".join(map(shown, each["readers"])),
        ]
        for each in transforms
    ]
    return columns(rows, right=(3, 4))


def _kernels(target: Target) -> str:
    """The calls that take most of the time, measured or else estimated."""
    counts = Counter(call["source"] for call in target["calls"])
    lines = [f"kernels: {', '.join(f'{count} {source}' for source, count in counts.most_common())}"]
    calls = sorted(target["calls"], key=lambda call: -(call["measured_us"] or call["estimate_us"] or 0.0))
    rows = [["", "us", "GFLOP/s", "of peak", "kernel", "computes"]]
    for call in calls[:_MOST_CALLS]:
        rate, share = gflops(call), peak_share(target, call)
        rows.append(
            [
                "",
                _us(call),
                "" if rate is None else f"{rate:.0f}",
                "" if share is None else f"{share:.0%}",
                kernel_words(call),
                ", ".join(map(shown, call["operators"])) or call["function"],
            ]
        )
    lines.append(columns(rows, right=(1, 2, 3)))
    if len(calls) > _MOST_CALLS:
        lines.append(f"  and {len(calls) - _MOST_CALLS} more; --json has all")
    return "\n".join(lines)


def _totals(target: Target) -> str:
    memory, solver, profile = target["memory"], target["solver"], target["profile"]
    moved = sum(each["bytes"] for each in target["transforms"])
    spent = sum(each["microseconds"] for each in target["transforms"])
    lines = [
        f"{counted(len(target['transforms']), 'transform')} left to run"
        + (f", {moved} bytes, {spent:.1f} us" if target["transforms"] else ""),
        f"choice {solver['status']}, {solver['objective_us']:.1f} us estimated in all",
        f"memory: {memory['weight_bytes']} bytes of weights, {memory['storage_bytes']} of intermediate "
        f"results in {counted(len(memory['storages']), 'storage')}",
    ]
    if profile:
        lines.append(
            f"measured: {profile['run_us']:.1f} us, median of {profile['repeat']} runs with "
            f"{counted(profile['threads'], 'thread')} on {shown(profile['cpu'])}, "
            f"peak {profile['peak_gflops']:.0f} GFLOP/s"
        )
    return "\n".join(lines)


def _kernel_of(target: Target, node: Node) -> str:
    if node["call"] is None:
        return "no kernel: folded into others, computed in place, or a view"
    call = target["calls"][node["call"]]
    parts = [f"kernel {call['function']}: {kernel_words(call)}"]
    if call["estimate_us"] is not None:
        known = "on record" if call["source"] == "tuned" else "estimated"
        parts.append(f"{call['estimate_us']:.1f} us {known}")
    if call["measured_us"] is not None:
        parts.append(f"{call['measured_us']:.1f} us measured")
    share = peak_share(target, call)
    if share is not None:
        parts.append(f"{share:.0%} of peak")
    lines = [", ".join(parts)]
    if call["knobs"]:
        lines.append("  " + ", ".join(f"{name} {value}" for name, value in call["knobs"].items()))
    others = [shown(name) for name in call["operators"] if name != node["name"]]
    return "\n".join([*lines, *([f"  computed with {', '.join(others)}"] if others else [])])


def _around(target: Target, node: Node) -> list[Transform]:
    place = target["nodes"].index(node)
    places = {
        edge["transform"]
        for edge in target["edges"]
        if edge["transform"] is not None and place in (edge["source"], edge["target"])
    }
    return [target["transforms"][each] for each in sorted(places)]


def _way(way: OtherWay) -> list[str]:
    verdict = "chosen"
    if not way["chosen"]:
        verdict = f"{way['more_us']:+.1f} us for the whole function"
        if way["more_transforms"]:
            verdict += f", {way['more_transforms']:+d} transforms"
    return ["", _sides(way), f"{way['microseconds']:.1f} us", verdict]


def _sides(sides: Sides | OtherWay) -> str:
    return layouts(sides["operands"], sides["results"])


def _us(call: Call) -> str:
    taken: Any = call["measured_us"] if call["measured_us"] is not None else call["estimate_us"]
    return "" if taken is None else f"{taken:.1f}"
