"""Arithmetic of PTX: integers, floating-point numbers, comparisons, conversions.

Source: PTX ISA, "Integer Arithmetic Instructions", "Floating Point Instructions", "Comparison and Selection
Instructions", "Logic and Shift Instructions" and "cvt". Approximations (ex2.approx, rsqrt.approx ...)
are here as near as numpy comes, and fma is rounded by way of float64.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from ptx_module import Instruction, Pair
from ptx_operands import TYPES, Step, reader, readers, type_of, unknown, writer

ROUNDINGS = ("rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi")
_WHOLE = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def _apply(function: Callable[..., Any], operands: int) -> Callable[[Instruction], Step]:
    """Of operands and a result that have the same type."""

    def make(instruction: Instruction) -> Step:
        if len(instruction.operands) != operands + 1:
            raise unknown(instruction)
        type_ = type_of(instruction)
        write = writer(instruction.operands[0], type_)
        found = readers(instruction.operands[1:], *[type_] * operands)
        if operands == 1:
            (one,) = found
            return lambda warps: write(warps, function(one(warps)))
        if operands == 2:
            first, second = found
            return lambda warps: write(warps, function(first(warps), second(warps)))
        return lambda warps: write(warps, function(*(read(warps) for read in found)))

    return make


def _only(instruction: Instruction, *known: str) -> None:
    """Refuse qualifiers that nothing here knows."""
    others = [word for word in instruction.words[1:] if word not in TYPES and word not in known]
    if others:
        raise unknown(instruction)


def _sum(function: Callable[..., Any]) -> Callable[[Instruction], Step]:
    """add, sub and mul of floating-point numbers, rounded to the nearest or towards zero; add and sub of
    integers.
    """

    def make(instruction: Instruction) -> Step:
        _only(instruction, "rn", "rz", "ftz")
        return _apply(inwards if "rz" in instruction.words else function, 2)(instruction)

    def inwards(one: Any, two: Any) -> Any:
        value = np.asarray(function(one, two))
        exact = function(np.asarray(one, np.float64), np.asarray(two, np.float64))
        return np.where(np.abs(value) > np.abs(exact), np.nextafter(value, value.dtype.type(0)), value)

    return make


def _limit(of_floats: Callable[..., Any], of_integers: Callable[..., Any]) -> Callable[[Instruction], Step]:
    def make(instruction: Instruction) -> Step:
        _only(instruction, "ftz", "NaN")
        if "NaN" in instruction.words or TYPES[type_of(instruction)].kind != "f":
            return _apply(of_integers, 2)(instruction)
        return _apply(of_floats, 2)(instruction)

    return make


def _wide(value: Any) -> Any:
    """Integers as integers of 64 bits; those of 64 bits as Python has them."""
    found = np.asarray(value)
    return found.astype(object) if found.dtype.itemsize == 8 else found.astype(np.int64)


def _multiply(instruction: Instruction) -> Step:
    """mul and mad."""
    type_ = type_of(instruction)
    if TYPES[type_].kind == "f":
        return _sum(np.multiply)(instruction) if instruction.words[0] == "mul" else _fma(instruction)
    (part,) = [word for word in instruction.words if word in ("lo", "hi", "wide")]
    _only(instruction, part)
    bits = TYPES[type_].itemsize * 8
    result = f"{type_[0]}{bits * 2}" if part == "wide" else type_
    dtype, write = TYPES[result], writer(instruction.operands[0], result)
    one, two = readers(instruction.operands[1:3], type_, type_)
    add = reader(instruction.operands[3], result) if instruction.words[0] == "mad" else None

    def run(warps: Any) -> None:
        first, second = one(warps), two(warps)
        if part == "lo":
            value = first * second
        elif part == "wide":
            value = np.asarray(first, dtype) * np.asarray(second, dtype)
        else:
            value = (_wide(first) * _wide(second) >> bits).astype(dtype)
        write(warps, value if add is None else value + add(warps))

    return run


def _fma(instruction: Instruction) -> Step:
    _only(instruction, "rn", "rm", "rz", "ftz")
    type_ = type_of(instruction)
    dtype = TYPES[type_]
    down, inwards = ("rm" in instruction.words, "rz" in instruction.words)
    write = writer(instruction.operands[0], type_)
    one, two, three = readers(instruction.operands[1:], type_, type_, type_)
    wide = np.float64

    def run(warps: Any) -> None:
        exact = np.multiply(one(warps), two(warps), dtype=wide) + three(warps)
        value = np.asarray(exact).astype(dtype)
        if down:
            value = np.where(value > exact, np.nextafter(value, dtype.type(-np.inf)), value)
        if inwards:
            value = np.where(np.abs(value) > np.abs(exact), np.nextafter(value, dtype.type(0)), value)
        write(warps, value)

    return run


def _divide(instruction: Instruction) -> Step:
    _only(instruction, "rn", "approx", "full", "ftz")
    if TYPES[type_of(instruction)].kind == "f":
        return _apply(np.divide, 2)(instruction)
    return _apply(lambda a, b: a // b + ((a % b != 0) & ((a < 0) != (b < 0))), 2)(instruction)


def _remainder(instruction: Instruction) -> Step:
    _only(instruction)
    return _apply(np.fmod, 2)(instruction)


def _function(function: Callable[[Any], Any]) -> Callable[[Instruction], Step]:
    """A function of one floating-point number, or of an integer as it is."""

    def make(instruction: Instruction) -> Step:
        _only(instruction, "approx", "ftz", "rn")
        return _apply(function, 1)(instruction)

    return make


def _bitwise(function: Callable[..., Any], operands: int = 2) -> Callable[[Instruction], Step]:
    def make(instruction: Instruction) -> Step:
        _only(instruction)
        return _apply(function, operands)(instruction)

    return make


def _shift(instruction: Instruction) -> Step:
    """Amounts beyond the width count as the width."""
    _only(instruction)
    type_ = type_of(instruction)
    dtype, bits = TYPES[type_], TYPES[type_].itemsize * 8
    write = writer(instruction.operands[0], type_)
    value, amount = readers(instruction.operands[1:], type_, "u32")
    left = instruction.words[0] == "shl"

    def run(warps: Any) -> None:
        found, by = value(warps), amount(warps)
        inside = np.minimum(by, bits - 1).astype(dtype)
        shifted = found << inside if left else found >> inside
        # A signed number is shifted to its sign, another to nothing.
        beyond = shifted if not left and dtype.kind == "i" else dtype.type(0)
        write(warps, np.where(by >= bits, beyond, shifted))

    return run


def _insert_bits(instruction: Instruction) -> Step:
    """bfi."""
    if instruction.words not in (("bfi", "b32"), ("bfi", "b64")):
        raise unknown(instruction)
    type_ = instruction.words[1]
    bits = int(type_[1:])
    write = writer(instruction.operands[0], type_)
    found = readers(instruction.operands[1:], type_, type_, "b32", "b32")

    def run(warps: Any) -> None:
        value, base, begin, length = (np.asarray(read(warps)).astype(object) for read in found)
        begin, length = begin & 0xFF, length & 0xFF
        mask = ((1 << length) - 1 << begin) & (1 << bits) - 1
        write(warps, (base & ~mask | value << begin & mask).astype(TYPES[type_]))

    return run


def _permute(instruction: Instruction) -> Step:
    """prmt.b32 by any selector, without a mode."""
    if instruction.words != ("prmt", "b32"):
        raise unknown(instruction)
    write = writer(instruction.operands[0], "b32")
    found = readers(instruction.operands[1:], *["b32"] * 3)

    def run(warps: Any) -> None:
        low, high, selector = (np.asarray(read(warps), np.uint64) for read in found)
        both = low | high << np.uint64(32)
        value: Any = np.uint64(0)
        for place in range(4):
            choice = selector >> np.uint64(4 * place) & 0xF
            byte = both >> (choice & 7) * 8 & 0xFF
            byte = np.where(choice & 8, np.where(byte & 0x80, 0xFF, 0), byte)
            value = value | byte.astype(np.uint64) << np.uint64(8 * place)
        write(warps, value.astype(np.uint32))

    return run


def _dot(instruction: Instruction) -> Step:
    """dp4a, four products of bytes and a sum; dp2a, two of 16 bits by the lower or upper bytes."""
    operation, *half, first, second = instruction.words
    if (operation, *half) not in (("dp4a",), ("dp2a", "lo"), ("dp2a", "hi")):
        raise unknown(instruction)
    widths = (2, 1) if half else (1, 1)
    dtypes = [
        np.dtype(f"{'u' if kind == 'u32' else 'i'}{width}")
        for kind, width in zip((first, second), widths, strict=True)
    ]
    result = "u32" if (first, second) == ("u32", "u32") else "s32"
    write = writer(instruction.operands[0], result)
    one, two, add = readers(instruction.operands[1:], "b32", "b32", result)
    chosen = {(): slice(4), ("lo",): slice(2), ("hi",): slice(2, 4)}[tuple(half)]

    def run(warps: Any) -> None:
        left, right = (
            np.ascontiguousarray(np.broadcast_to(read(warps), warps.mask.shape))
            .view(dtype)
            .reshape(warps.mask.size, -1)
            for read, dtype in zip((one, two), dtypes, strict=True)
        )
        products = (left.astype(np.int64) * right[:, chosen]).sum(1)
        write(warps, (products + add(warps)).astype(TYPES[result]))

    return run


_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: (a < b) | (a > b),
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "lo": lambda a, b: a < b,
    "ls": lambda a, b: a <= b,
    "hi": lambda a, b: a > b,
    "hs": lambda a, b: a >= b,
    "equ": lambda a, b: ~((a < b) | (a > b)),
    "neu": lambda a, b: a != b,
    "ltu": lambda a, b: ~(a >= b),
    "leu": lambda a, b: ~(a > b),
    "gtu": lambda a, b: ~(a <= b),
    "geu": lambda a, b: ~(a < b),
    "num": lambda a, b: (a == a) & (b == b),
    "nan": lambda a, b: (a != a) | (b != b),
}
_COMBINED = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def _compare(instruction: Instruction) -> Step:
    words = [word for word in instruction.words[1:] if word not in TYPES and word != "ftz"]
    if not words or words[0] not in _COMPARISONS or len(words) > 2:
        raise unknown(instruction)
    comparison, type_ = _COMPARISONS[words[0]], type_of(instruction)
    combine = _COMBINED[words[1]] if len(words) == 2 else None
    result, *operands = instruction.operands
    both = isinstance(result, Pair)
    write = writer(result.first if both else result, "pred")
    write_other = writer(result.second, "pred") if both else None
    one, two = readers(operands[:2], type_, type_)
    also = reader(operands[2], "pred") if combine else None

    def run(warps: Any) -> None:
        found = comparison(one(warps), two(warps))
        other = ~found
        if combine is not None and also is not None:
            found, other = combine(found, also(warps)), combine(other, also(warps))
        write(warps, found)
        if write_other is not None:
            write_other(warps, other)

    return run


def _select(instruction: Instruction) -> Step:
    _only(instruction)
    type_ = type_of(instruction)
    write = writer(instruction.operands[0], type_)
    one, two, choice = readers(instruction.operands[1:], type_, type_, "pred")
    return lambda warps: write(warps, np.where(choice(warps), one(warps), two(warps)))


def _convert(instruction: Instruction) -> Step:
    """cvt between integers and floating-point numbers of one element; cvt.rna.tf32.f32."""
    if instruction.words == ("cvt", "rna", "tf32", "f32"):
        return _to_tf32(instruction)
    _only(instruction, *ROUNDINGS, "ftz", "sat")
    to, of = type_of(instruction, -2), type_of(instruction)
    write, read = writer(instruction.operands[0], to), reader(instruction.operands[1], of)
    wanted, found = TYPES[to], TYPES[of]
    roundings = [word for word in instruction.words if word in ROUNDINGS]
    rounding, saturates = (roundings or [""])[0], "sat" in instruction.words
    if found.kind == "f" and wanted.kind != "f":
        return lambda warps: write(warps, _to_integer(read(warps), _WHOLE[rounding], wanted))
    if found.kind != "f" and wanted.kind != "f":
        if not saturates:
            return lambda warps: write(warps, np.asarray(read(warps)).astype(wanted))
        limits = np.iinfo(wanted)
        return lambda warps: write(warps, np.clip(_wide(read(warps)), limits.min, limits.max).astype(wanted))
    if found.kind == "f" and wanted.itemsize < found.itemsize and rounding != "rn":
        raise unknown(instruction)
    if found.kind != "f" and rounding != "rn":
        raise unknown(instruction)

    def run(warps: Any) -> None:
        value = read(warps)
        if rounding in _WHOLE:
            value = _WHOLE[rounding](value)
        value = np.asarray(value).astype(wanted)
        if saturates:
            # Not a number becomes 0.
            value = np.fmin(np.fmax(value, wanted.type(0)), wanted.type(1))
        write(warps, value)

    return run


def _to_integer(value: Any, whole: Callable[[Any], Any], wanted: Any) -> Any:
    """Limited to the range of the type; not a number becomes 0."""
    limits = np.iinfo(wanted)
    rounded = whole(np.asarray(value, np.float64))
    inside = np.clip(rounded, float(limits.min), float(limits.max))
    inside = np.where(np.isnan(inside), 0, inside)
    below = inside < float(limits.max)
    return np.where(below, np.where(below, inside, 0).astype(wanted), wanted.type(limits.max))


def _to_tf32(instruction: Instruction) -> Step:
    """To 10 bits of mantissa, ties away from zero."""
    write = writer(instruction.operands[0], "b32")
    read = reader(instruction.operands[1], "f32")

    def run(warps: Any) -> None:
        value = np.asarray(read(warps))
        bits = (value.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
        write(warps, np.where(np.isfinite(value), bits, value.view(np.uint32)))

    return run


def _opposite(value: Any) -> Any:
    return -value


def _inverted(value: Any) -> Any:
    return ~value


MAKERS: dict[str, Callable[[Instruction], Step]] = {
    "add": _sum(np.add),
    "sub": _sum(np.subtract),
    "mul": _multiply,
    "mad": _multiply,
    "fma": _fma,
    "div": _divide,
    "rem": _remainder,
    "min": _limit(np.fmin, np.minimum),
    "max": _limit(np.fmax, np.maximum),
    "abs": _function(np.abs),
    "neg": _function(_opposite),
    "sqrt": _function(np.sqrt),
    "rsqrt": _function(lambda value: 1 / np.sqrt(value)),
    "rcp": _function(lambda value: 1 / value),
    "ex2": _function(np.exp2),
    "lg2": _function(np.log2),
    "tanh": _function(np.tanh),
    "and": _bitwise(np.bitwise_and),
    "or": _bitwise(np.bitwise_or),
    "xor": _bitwise(np.bitwise_xor),
    "not": _bitwise(_inverted, 1),
    "copysign": _bitwise(lambda sign, value: np.copysign(value, sign)),
    "shl": _shift,
    "shr": _shift,
    "bfi": _insert_bits,
    "prmt": _permute,
    "dp4a": _dot,
    "dp2a": _dot,
    "setp": _compare,
    "selp": _select,
    "cvt": _convert,
}
"""By the first word of an operation."""
