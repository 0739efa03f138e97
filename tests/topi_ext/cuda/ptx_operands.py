"""Operands of PTX instructions as arrays with a place for every lane of :class:`ptx_machine.Warps`.

Source: PTX ISA, "Operand Size Exceeding Instruction-Type Size": a register may be wider than the type; then
its upper bits are left out, and results are extended as their type says.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from gpu_memory import SimulationError
from ptx_module import Immediate, Instruction, Negated, Register, Symbol

Reader = Callable[[Any], Any]
Writer = Callable[[Any, Any], None]
Step = Callable[[Any], None]

TYPES: dict[str, Any] = {
    **{f"{kind}{bits}": np.dtype(f"u{bits // 8}") for kind in "bu" for bits in (8, 16, 32, 64)},
    **{f"s{bits}": np.dtype(f"i{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"f{bits}": np.dtype(f"f{bits // 8}") for bits in (16, 32, 64)},
    "f16x2": np.dtype("f2"),
    "pred": np.dtype(bool),
}

BITS: dict[int, Any] = {bits: np.dtype(f"u{bits // 8}") for bits in (8, 16, 32, 64)}
BITS[1] = np.dtype(bool)

SINK = Symbol("_")


def type_of(instruction: Instruction, place: int = -1) -> str:
    """The type among an operation's words, from the end."""
    types = [word for word in instruction.words if word in TYPES]
    if not types:
        raise unknown(instruction)
    return types[place]


def unknown(instruction: Instruction) -> SimulationError:
    return SimulationError(f"unknown instruction: {instruction.text}")


def reader(operand: Any, type_: str) -> Reader:
    """What gives an operand's values as numbers of ``type_``."""
    if isinstance(operand, Negated):
        inner = reader(operand.register, "pred")
        return lambda warps: ~inner(warps)
    if isinstance(operand, Immediate):
        return _constant(operand, type_)
    if isinstance(operand, Symbol):
        return _symbol(operand.name, type_)
    if not isinstance(operand, Register):
        raise SimulationError(f"no operand of type {type_}: {operand}")
    return _register(operand, type_)


def _register(register: Register, type_: str) -> Reader:
    place, dtype = register.place, TYPES[type_]
    if type_ == "f16x2":
        return lambda warps: warps.registers[place].view(dtype).reshape(-1, 2)
    if dtype == BITS[register.bits]:
        return lambda warps: warps.registers[place]
    width = dtype.itemsize * 8
    if type_ == "pred" or register.bits == 1 or width > register.bits:
        raise SimulationError(f"{register.name} has no value of type {type_}")
    if width == register.bits:
        return lambda warps: warps.registers[place].view(dtype)
    bits = BITS[width]
    return lambda warps: warps.registers[place].astype(bits).view(dtype)


def _constant(operand: Immediate, type_: str) -> Reader:
    dtype = TYPES[type_]
    if operand.float_bits:
        found = np.array(operand.value, BITS[operand.float_bits]).view(f"f{operand.float_bits // 8}")
        if dtype.kind != "f":
            raise SimulationError(f"a floating-point number of type {type_}")
        value = found.astype(dtype)[()]
    elif type_ == "pred":
        value = np.bool_(operand.value != 0)
    elif dtype.kind == "f":
        value = np.array(operand.value & ((1 << dtype.itemsize * 8) - 1), BITS[dtype.itemsize * 8]).view(
            dtype
        )[()]
    else:
        wrapped = operand.value & ((1 << dtype.itemsize * 8) - 1)
        value = np.array(wrapped, BITS[dtype.itemsize * 8]).view(dtype)[()]
    return lambda warps: value


def _symbol(name: str, type_: str) -> Reader:
    dtype = TYPES[type_]
    if name.startswith("%"):
        return lambda warps: warps.special(name).astype(dtype)
    return lambda warps: dtype.type(warps.launch.symbol(name))


def writer(operand: Any, type_: str) -> Writer:
    """What puts numbers of ``type_`` into a register, of lanes that are active."""
    if operand == SINK:
        return lambda warps, value: None
    if not isinstance(operand, Register):
        raise SimulationError(f"no register: {operand}")
    place, dtype, bits = operand.place, TYPES[type_], BITS[operand.bits]
    if type_ == "f16x2":
        return lambda warps, value: warps.put(
            place, np.ascontiguousarray(value, dtype).view("u4").reshape(-1)
        )
    if dtype.itemsize * 8 == operand.bits or type_ == "pred" == {1: "pred"}.get(operand.bits):
        return lambda warps, value: warps.put(place, np.asarray(value, dtype).view(bits))
    if operand.bits == 1 or type_ == "pred" or dtype.itemsize * 8 > operand.bits or dtype.kind == "f":
        raise SimulationError(f"{operand.name} takes no value of type {type_}")
    extended = np.dtype(f"{dtype.kind}{bits.itemsize}")
    return lambda warps, value: warps.put(place, np.asarray(value, dtype).astype(extended).view(bits))


def readers(operands: Any, *types: str) -> list[Reader]:
    return [reader(operand, type_) for operand, type_ in zip(operands, types, strict=True)]
