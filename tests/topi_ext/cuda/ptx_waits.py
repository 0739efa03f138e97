"""What kernels that are launched early do before they have waited for the kernel before, by their PTX alone.

Nothing runs here: all paths through a kernel are looked at, whatever its data and its place in the grid are.
"""

from typing import Any

from ptx_module import Address, Immediate, Instruction, Kernel, Negated, Pair, Register, Symbol, Vector

WAIT, ALLOW = "griddepcontrol.wait", "griddepcontrol.launch_dependents"

_ACCESSES = ("ld", "ldu", "st", "red", "atom", "prefetch")

_NOT_GLOBAL = {"param", "shared", "shared__cta", "shared__cluster", "local", "const"}


def reached_before_the_wait(code: list[Instruction]) -> list[Instruction]:
    """On any path from the first instruction, whatever its branches do; all where nothing waits."""
    seen: set[int] = set()
    pending = [0]
    while pending:
        place = pending.pop()
        if place in seen or place >= len(code) or code[place].operation == WAIT:
            continue
        seen.add(place)
        found = code[place]
        if found.target is not None:
            pending.append(found.target)
        if found.words[0] not in ("bra", "ret", "exit") or found.guard is not None:
            pending.append(place + 1)
    return [code[place] for place in sorted(seen)]


def memory_accesses(code: list[Instruction]) -> list[str]:
    """Global memory's, but for asynchronous copies."""
    return [found.text for found in code if found.words[0] in _ACCESSES and not _NOT_GLOBAL & {*found.words}]


def early_problems(kernel: Kernel) -> list[str]:
    """What is wrong with the order of a kernel, if anything: it must allow the next one in the first place,
    come to no end and no memory before the wait, and copy early only asynchronously.
    """
    early = reached_before_the_wait(kernel.code)
    problems = [f"{text} before the wait" for text in memory_accesses(early)]
    if len(early) == len(kernel.code):
        problems.append("no wait")
    problems += [f"{found.text} before the wait" for found in early if found.words[0] in ("ret", "exit")]
    straight = next((place for place, found in enumerate(early) if found.operation == ALLOW), None)
    if straight is None:
        problems.append("does not allow the next kernel before the wait")
    elif [found for found in early[: straight + 1] if found.words[0] == "bra" or found.guard]:
        problems.append("some blocks may not allow the next kernel")
    return problems


def copied_early(kernel: Kernel) -> set[str]:
    """The parameters that lead to what asynchronous copies read before the wait."""
    leads = _origins(kernel)
    found: set[str] = set()
    for instruction in reached_before_the_wait(kernel.code):
        if instruction.words[:2] == ("cp", "async") and len(instruction.operands) > 1:
            found |= _of(instruction.operands[1], leads)
    return found


def _origins(kernel: Kernel) -> dict[str, set[str]]:
    """The parameters that registers may be made of, on whatever path."""
    parameters = {parameter.name for parameter in kernel.parameters}
    leads: dict[str, set[str]] = {name: {name} for name in parameters}
    changed = True
    while changed:
        changed = False
        for instruction in kernel.code:
            if len(instruction.operands) < 2:
                continue
            first, *others = instruction.operands
            made = set().union(*(_of(other, leads) for other in others))
            for name in _names(first):
                if not made <= leads.setdefault(name, set()):
                    leads[name] |= made
                    changed = True
    return leads


def _of(operand: Any, leads: dict[str, set[str]]) -> set[str]:
    return set().union(*(leads.get(name, set()) for name in _names(operand)))


def _names(operand: Any) -> list[str]:
    """Registers and symbols of an operand; registers by their numbers, as scopes repeat names."""
    match operand:
        case Register():
            return [f"#{operand.place}"]
        case Symbol():
            return [operand.name]
        case Negated():
            return _names(operand.register)
        case Address():
            return _names(operand.base)
        case Vector():
            return [name for part in operand.parts for name in _names(part)]
        case Pair():
            return [*_names(operand.first), *_names(operand.second)]
        case Immediate() | None:
            return []
    raise TypeError(operand)
