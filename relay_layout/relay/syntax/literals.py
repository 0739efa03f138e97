"""Numbers as Relay text spells them."""

import math
import re

import numpy as np

_NUMBER = re.compile(r"(-?(?:inf|nan|[0-9.]+(?:[eE][+-]?[0-9]+)?))(?:([fiu])([0-9]*))?")
_WIDTHS = {"i": (8, 16, 32, 64), "u": (8, 16, 32, 64), "f": (16, 32, 64)}
# The longest finite double that C++ prints has 309 digits before the point.
_MAX_CHARACTERS = 400


class LiteralError(ValueError):
    """A number that Relay has no value for; the message completes "expected ...,"."""


def parse_number(text: str, attribute: bool) -> tuple[int | float, str]:
    """The value and the data type of a number token such as ``1``, ``1i64``, ``3f``, ``1e-05f`` or ``-inff``.

    In an attribute ``f`` alone marks a double. Raises LiteralError when the suffix is unknown or the value
    does not fit its type.
    """
    match = _NUMBER.fullmatch(text) if len(text) <= _MAX_CHARACTERS else None
    if match is None:
        raise LiteralError(f"expected a number of at most {_MAX_CHARACTERS} characters")
    digits, suffix, width = match.groups()
    if suffix is None:
        suffix = "f" if not digits.lstrip("-").isdigit() else "i"
    bits = int(width[:4]) if width else 32
    if bits not in _WIDTHS[suffix]:
        known = ", ".join(f"{suffix}{known}" for known in _WIDTHS[suffix])
        raise LiteralError(f"expected a number with one of the suffixes {known}")
    if suffix == "f":
        if attribute and not width:
            bits = 64
        return _parse_float(digits, bits), f"float{bits}"
    return _parse_integer(digits, bits, suffix, explicit=bool(width))


def _parse_float(digits: str, bits: int) -> float:
    value = float(digits)
    if math.isfinite(value):
        with np.errstate(over="ignore"):
            narrow = np.dtype(f"float{bits}").type(value)
        if not np.isfinite(narrow):
            raise LiteralError(f"expected a number that fits float{bits}")
    elif digits.lstrip("-") not in ("inf", "nan"):
        raise LiteralError(f"expected a number that fits float{bits}")
    return value


def _parse_integer(digits: str, bits: int, suffix: str, explicit: bool) -> tuple[int, str]:
    if not digits.lstrip("-").isdigit():
        raise LiteralError("expected an integer before the suffix of an integer")
    # Twenty characters hold every 64-bit integer; int() of a long text takes quadratic time.
    if len(digits.lstrip("-").lstrip("0")) > 20:
        raise LiteralError("expected an integer of at most 64 bits")
    value = int(digits)
    kind = "uint" if suffix == "u" else "int"
    if bits == 32 and not explicit and not -(2**31) <= value < 2**31:
        bits = 64
    low, high = (0, 2**bits) if suffix == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1))
    if not low <= value < high:
        raise LiteralError(f"expected an integer that fits {kind}{bits}")
    return value, f"{kind}{bits}"


def print_float(value: float) -> str:
    """The text of a floating point attribute: ``0.25f``, ``1e-05f``, ``2f``, ``inff``."""
    return _short(repr(float(value))) + "f"


def print_scalar(data: np.ndarray) -> str | None:
    """The text of a scalar constant, or None when it can stand in the metadata section only."""
    if data.ndim != 0:
        return None
    name = data.dtype.name
    value = data[()]
    if name == "bool":
        return "True" if value else "False"
    if name in ("int16", "int32", "int64"):
        return f"{value}{'' if name == 'int32' else 'i' + name[3:]}"
    # A NaN's text does not tell its sign and payload.
    if name in ("float16", "float32", "float64") and not np.isnan(value):
        digits = _short(str(value))
        if data.dtype.type(float(digits)) != value:
            digits = repr(float(value))
        return digits + ("f" if name == "float32" else "f" + name[5:])
    return None


def _short(digits: str) -> str:
    return digits[:-2] if digits.endswith(".0") else digits
