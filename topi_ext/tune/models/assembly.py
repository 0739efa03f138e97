"""Loops of AArch64 assembly as a compiler prints it, and what is in them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

MULTIPLY_ADDS = (
    *("fmla", "fmls", "sdot", "udot", "usdot", "sudot", "smmla", "usmmla", "bfdot", "bfmmla"),
    *("smlal", "smlal2", "umlal", "umlal2"),
)
"""Vector instructions that multiply and accumulate into their first operand."""

PRODUCTS = ("smull", "smull2", "umull", "umull2")
"""Those that multiply integers, for others to accumulate."""

PAIR_SUMS = ("sadalp", "uadalp")
"""Those that accumulate sums of neighbours into their first operand."""

ACCUMULATING = (*MULTIPLY_ADDS, *PAIR_SUMS)

_LABEL = re.compile(r"(\.?L\w+):")
_BRANCH = re.compile(r"(?:b|b\.\w+|cbn?z\s+\w+,|tbn?z\s+\w+,\s*#\w+,)\s*(\.?L\w+)$")
_COMMENT = re.compile(r"\s*//.*$")
_LANE = re.compile(r"\.\w+\[\d+\]$")
_STACK = re.compile(r"\[sp\b")
_FRAME = re.compile(r"\[(?:sp|x29)\b")
_FUNCTION = re.compile(r"[A-Za-z_]\w*:")
_FRAME_POINTER = re.compile(r"(?:mov|add)\s+x29, sp\b")
_REGISTER = re.compile(r"\b[qdshv](\d+)\b")
_ON_VECTOR = re.compile(r"\w+\s+v\d+\.")
_VECTOR = re.compile(r"[qv]\d")
_LOADS = ("ld",)
_STORES = ("st",)


@dataclass(frozen=True)
class Loop:
    """The instructions from a label to the branch back to it; no loop lies within.

    ``framed``: the function keeps its frame in x29, which otherwise is a register like others.
    """

    label: str
    instructions: tuple[str, ...]
    framed: bool = True

    @cached_property
    def multiply_adds(self) -> int:
        """Vector instructions that multiply what is summed."""
        return sum(_mnemonic(line) in (*MULTIPLY_ADDS, *PRODUCTS) for line in self.instructions)

    @cached_property
    def accumulating(self) -> int:
        """Additions into registers that nothing else in the loop writes: sums of many iterations."""
        fresh = {register for line in self.instructions for register in _written(line)}
        return sum(
            _mnemonic(line) in ACCUMULATING and _first_register(line) not in fresh
            for line in self.instructions
        )

    @cached_property
    def lane_indexed(self) -> int:
        """Multiply-adds whose last operand is one lane of a register."""
        return sum(
            _mnemonic(line) in MULTIPLY_ADDS and bool(_LANE.search(line)) for line in self.instructions
        )

    @cached_property
    def vector_operations(self) -> int:
        """Instructions on whole vectors other than loads and stores."""
        return sum(
            not _mnemonic(line).startswith((*_LOADS, *_STORES)) and bool(_ON_VECTOR.match(line))
            for line in self.instructions
        )

    @cached_property
    def loads(self) -> int:
        """Loads, a pair counting as one."""
        return sum(_mnemonic(line).startswith(_LOADS) for line in self.instructions)

    @cached_property
    def vector_stores(self) -> int:
        """Whole vectors stored outside of the stack frame."""
        return sum(
            _mnemonic(line).startswith(_STORES)
            and not self._is_on_stack(line)
            and len(_VECTOR.findall(line.partition("[")[0]))
            for line in self.instructions
        )

    @cached_property
    def spills(self) -> int:
        """Loads and stores of the stack frame, but for :attr:`starts`."""
        touching = sum(
            _mnemonic(line).startswith((*_LOADS, *_STORES)) and self._is_on_stack(line)
            for line in self.instructions
        )
        return touching - self.starts

    @cached_property
    def starts(self) -> int:
        """Sums that start from a vector in the stack frame to which the loop stores nothing.

        A sum that was spilled is stored again, and a spilled factor is no sum: neither counts.
        """
        written = {_address(line) for line in self.instructions if _mnemonic(line).startswith(_STORES)}
        return sum(
            _mnemonic(line).startswith(_LOADS)
            and self._is_on_stack(line)
            and _address(line) not in written
            and self._is_accumulated(place)
            for place, line in enumerate(self.instructions)
        )

    def _is_accumulated(self, place: int) -> bool:
        """Is what the load at ``place`` writes first used as the sum that is gone on with?"""
        registers = _REGISTER.findall(self.instructions[place].partition("[")[0])
        following = self.instructions[place + 1 :]
        uses = (line for line in following if set(registers) & set(_REGISTER.findall(line)))
        first = next(uses, "")
        return (
            len(registers) == 1
            and _mnemonic(first) in ACCUMULATING
            and _first_register(first) in registers
            and _REGISTER.findall(first).count(registers[0]) == 1
        )

    def _is_on_stack(self, line: str) -> bool:
        return bool((_FRAME if self.framed else _STACK).search(line))


def innermost_loops(assembly: str) -> list[Loop]:
    """Every loop without a loop in it, in the order of the text."""
    lines = [_COMMENT.sub("", line).strip() for line in assembly.splitlines()]
    places: dict[str, int] = {}
    found = []
    framed = False
    for place, line in enumerate(lines):
        framed = not _FUNCTION.match(line) and (framed or bool(_FRAME_POINTER.match(line)))
        label = _LABEL.match(line)
        if label:
            places[label[1]] = place
            continue
        branch = _BRANCH.match(line)
        if branch and branch[1] in places:
            body = lines[places[branch[1]] + 1 : place + 1]
            if not any(_closes_loop(body[:-1], body)):
                instructions = tuple(line for line in body if _is_instruction(line))
                found.append(Loop(branch[1], instructions, framed))
    return found


def hot_loop(assembly: str) -> Loop | None:
    """The loop that multiplies most: most multiply-adds into sums of many iterations, else most at all.

    None where no loop multiplies and accumulates.
    """
    loops = [loop for loop in innermost_loops(assembly) if loop.multiply_adds]
    return max(loops, key=lambda loop: (loop.accumulating, loop.multiply_adds), default=None)


def _closes_loop(lines: Sequence[str], body: Sequence[str]) -> list[bool]:
    """For each branch among ``lines``: does it go back to a label within ``body``?"""
    labels = {label[1] for line in body if (label := _LABEL.match(line))}
    seen: set[str] = set()
    backward = []
    for line in lines:
        label, branch = _LABEL.match(line), _BRANCH.match(line)
        if label:
            seen.add(label[1])
        elif branch:
            backward.append(branch[1] in seen and branch[1] in labels)
    return backward


def _is_instruction(line: str) -> bool:
    return bool(line) and not line.startswith(".") and not _LABEL.match(line)


def _mnemonic(line: str) -> str:
    return line.split(None, 1)[0] if line else ""


def _address(line: str) -> str:
    """What is between the brackets of a load or a store."""
    return line.partition("[")[2].partition("]")[0]


def _first_register(line: str) -> str:
    found = _REGISTER.search(line.partition("\t")[2] or line.partition(" ")[2])
    return found[1] if found else ""


def _written(line: str) -> list[str]:
    """Numbers of the vector registers that an instruction writes which does not accumulate."""
    name = _mnemonic(line)
    if name in ACCUMULATING or name.startswith(_STORES):
        return []
    operands = line[len(name) :]
    if name.startswith(_LOADS):
        return _REGISTER.findall(operands.partition("[")[0])
    first = operands.split(",", 1)[0]
    return _REGISTER.findall(first)
