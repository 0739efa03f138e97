"""PTX text as instructions and variables.

Source: PTX ISA, "Syntax", "State Spaces, Types, and Variables" and "Instruction Operands". What nvcc
prints and what inline assembly may hold is read: nested scopes have registers and labels of their own.
"""

import re
import struct
from dataclasses import dataclass, field
from typing import Any

from gpu_memory import SimulationError


@dataclass(frozen=True)
class Register:
    """``place`` is its number among all registers of a kernel, ``bits`` its width, 1 for a predicate."""

    name: str
    place: int
    bits: int


@dataclass(frozen=True)
class Immediate:
    """An integer, or the bits of a floating-point number of so many ``float_bits``."""

    value: int
    float_bits: int = 0


@dataclass(frozen=True)
class Symbol:
    """A special register ("%tid.x"), a variable, a parameter, or the sink "_"."""

    name: str


@dataclass(frozen=True)
class Negated:
    register: Register


@dataclass(frozen=True)
class Address:
    """``[base + offset]``; what stands in brackets after a tensor map is in ``coordinates``."""

    base: Any
    offset: int = 0
    coordinates: Any = None


@dataclass(frozen=True)
class Vector:
    parts: tuple[Any, ...]


@dataclass(frozen=True)
class Pair:
    """``p|q``: a result and a predicate."""

    first: Any
    second: Any


@dataclass
class Instruction:
    """``words`` are the parts of the operation between points; ``target`` is where a branch goes."""

    text: str
    words: tuple[str, ...]
    operands: tuple[Any, ...]
    guard: Register | Negated | None = None
    target: int | None = None

    @property
    def operation(self) -> str:
        return ".".join(self.words)


@dataclass(frozen=True)
class Variable:
    """``size`` is None where it is said at the launch."""

    name: str
    space: str
    alignment: int
    size: int | None


@dataclass
class Kernel:
    """An entry: ``parameters`` and ``variables`` in order, ``registers`` of all scopes."""

    name: str
    parameters: list[Variable]
    variables: list[Variable]
    registers: list[Register] = field(default_factory=list)
    code: list[Instruction] = field(default_factory=list)


_WIDTHS = {"pred": 1, **{f"{kind}{bits}": bits for kind in "bsuf" for bits in (8, 16, 32, 64)}}

_VARIABLE = re.compile(
    r"\.(?P<space>shared|param|local)\s*(?:\.align\s+(?P<alignment>\d+)\s*)?\.(?P<type>\w+)\s+(?P<name>[\w$]+)"
    r"\s*(?P<array>\[(?P<count>\d*)\])?"
)
_STATEMENT = re.compile(
    r"(?:@(?P<negated>!?)(?P<guard>[%\w$]+)\s+)?(?P<operation>[a-z][\w.:]*)\s*(?P<operands>.*)", re.DOTALL
)
_LABEL = re.compile(r"\s*([\w$]+)\s*:(?!:)")
_ENTRY = re.compile(r"\.entry\s+(\w+)\s*\((.*?)\)[^{]*\{", re.DOTALL)


class _Scope:
    """Names between two braces."""

    def __init__(self, outer: "_Scope | None" = None) -> None:
        self.outer = outer
        self.registers: dict[str, Register] = {}
        self.families: dict[str, int] = {}
        self.labels: dict[str, int] = {}

    def find(self, kind: str, name: str) -> Any:
        scope: _Scope | None = self
        while scope is not None:
            found = getattr(scope, kind).get(name)
            if found is not None:
                return found
            scope = scope.outer
        return None


def parse_kernels(text: str) -> dict[str, Kernel]:
    """The entries of a module by name."""
    text = re.sub(r"//[^\n]*", "", text)
    kernels = {}
    outside = text
    for entry in _ENTRY.finditer(text):
        end = _closing(text, entry.end())
        outside = outside.replace(text[entry.start() : end], "")
        parameters = [_variable(found) for found in _VARIABLE.finditer(entry[2])]
        kernel = Kernel(entry[1], parameters, [])
        _Body(kernel, text[entry.end() : end - 1]).read()
        kernels[kernel.name] = kernel
    common = [_variable(found) for found in _VARIABLE.finditer(outside)]
    for kernel in kernels.values():
        kernel.variables += common
    return kernels


def _closing(text: str, begin: int) -> int:
    depth = 1
    for brace in re.compile(r"[{}]").finditer(text, begin):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.end()
    raise SimulationError("an entry that does not end")


def _variable(found: re.Match[str]) -> Variable:
    size = _WIDTHS[found["type"]] // 8
    alignment = int(found["alignment"] or size)
    if found["array"]:
        return Variable(
            found["name"],
            found["space"],
            alignment,
            size * int(found["count"]) if found["count"] else None,
        )
    return Variable(found["name"], found["space"], alignment, size)


class _Body:
    """The statements of an entry."""

    def __init__(self, kernel: Kernel, text: str) -> None:
        self.kernel, self.text = kernel, text
        self.scope = _Scope()
        self.branches: list[tuple[Instruction, str, _Scope]] = []

    def read(self) -> None:
        place = 0
        while True:
            rest = re.compile(r"\s*").match(self.text, place)
            place = rest.end() if rest else place
            if place >= len(self.text):
                break
            label = _LABEL.match(self.text, place)
            if self.text[place] == "{":
                self.scope, place = _Scope(self.scope), place + 1
            elif self.text[place] == "}":
                assert self.scope.outer is not None
                self.scope, place = self.scope.outer, place + 1
            elif label:
                self.scope.labels[label[1]] = len(self.kernel.code)
                place = label.end()
            else:
                end = self.text.index(";", place)
                self._statement(self.text[place:end].strip())
                place = end + 1
        for instruction, name, scope in self.branches:
            instruction.target = scope.find("labels", name)
            if instruction.target is None:
                raise SimulationError(f"no label {name}: {instruction.text}")

    def _statement(self, text: str) -> None:
        if text.startswith(".reg"):
            self._registers(text)
        elif text.startswith((".shared", ".local")):
            found = _VARIABLE.match(text)
            assert found is not None
            self.kernel.variables.append(_variable(found))
        elif text.startswith("."):
            if not text.startswith((".pragma", ".loc")):
                raise SimulationError(f"unknown directive: {text}")
        elif text:
            self._instruction(text)

    def _registers(self, text: str) -> None:
        kind, names = re.fullmatch(r"\.reg\s*\.(\w+)\s+(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
        for name in re.split(r"\s*,\s*", names):
            numbered = re.fullmatch(r"([%\w$]+)<(\d+)>", name)
            if numbered:
                self.scope.families[numbered[1]] = _WIDTHS[kind]
            else:
                self._register(self.scope, name, _WIDTHS[kind])

    def _register(self, scope: _Scope, name: str, bits: int) -> Register:
        register = Register(name, len(self.kernel.registers), bits)
        self.kernel.registers.append(register)
        scope.registers[name] = register
        return register

    def _instruction(self, text: str) -> None:
        found = _STATEMENT.fullmatch(text)
        if found is None:
            raise SimulationError(f"not understood: {text}")
        guard = None
        if found["guard"]:
            register = self._operand(found["guard"])
            guard = Negated(register) if found["negated"] else register
        words = tuple(found["operation"].replace("::", "__").split("."))
        if words[0] == "bra":
            instruction = Instruction(text, words, (), guard)
            self.branches.append((instruction, found["operands"].strip(), self.scope))
        else:
            operands = tuple(self._operand(part) for part in _split(found["operands"]))
            instruction = Instruction(text, words, operands, guard)
        self.kernel.code.append(instruction)

    def _operand(self, text: str) -> Any:
        text = text.strip()
        if text.startswith("{"):
            return Vector(tuple(self._operand(part) for part in _split(text[1:-1])))
        if text.startswith("["):
            return self._address(text[1:-1])
        if text.startswith("!"):
            return Negated(self._operand(text[1:]))
        if "|" in text:
            first, second = text.split("|")
            return Pair(self._operand(first), self._operand(second))
        number = _number(text)
        return number if number is not None else self._name(text)

    def _address(self, text: str) -> Address:
        parts = _split(text)
        found = re.fullmatch(r"([^+\s]+)\s*(?:\+\s*(-?\d+))?", parts[0].strip())
        if found is None:
            raise SimulationError(f"no address: [{text}]")
        coordinates = self._operand(parts[1]) if len(parts) > 1 else None
        return Address(self._operand(found[1]), int(found[2] or 0), coordinates)

    def _name(self, text: str) -> Any:
        found = self.scope.find("registers", text)
        if found is not None:
            return found
        family = re.fullmatch(r"([%\w$]*?[%A-Za-z_$])\d+", text)
        scope: _Scope | None = self.scope
        while family and scope is not None:
            if family[1] in scope.families:
                return self._register(scope, text, scope.families[family[1]])
            scope = scope.outer
        return Symbol(text)


def _number(text: str) -> Immediate | None:
    if re.fullmatch(r"0[fF][0-9a-fA-F]{8}", text):
        return Immediate(int(text[2:], 16), 32)
    if re.fullmatch(r"0[dD][0-9a-fA-F]{16}", text):
        return Immediate(int(text[2:], 16), 64)
    if re.fullmatch(r"-?(0[xX][0-9a-fA-F]+|\d+)U?", text):
        return Immediate(int(text.rstrip("U"), 0))
    if re.fullmatch(r"-?\d+\.\d*([eE][-+]?\d+)?", text):
        return Immediate(struct.unpack("<Q", struct.pack("<d", float(text)))[0], 64)
    return None


def _split(text: str) -> list[str]:
    """At commas outside braces and brackets."""
    parts, depth, begin = [], 0, 0
    for place, letter in enumerate(text):
        if letter in "{[":
            depth += 1
        elif letter in "}]":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[begin:place])
            begin = place + 1
    last = text[begin:]
    return [*parts, last] if last.strip() or parts else []
