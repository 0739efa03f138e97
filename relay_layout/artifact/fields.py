"""Strict JSON, and checks of single fields, whose ArtifactErrors say where in the document they are."""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from relay_layout.errors import ArtifactError
from topi_ext.messages import first_line

DTYPES = (
    "float32",
    "float16",
    "float64",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "bool",
)
MAX_DEPTH = 64
MAX_RANK = 32
MAX_BYTES = 2**48
MAX_TEXT = 4096
_INTEGERS = range(-(2**63), 2**64)

_Item = TypeVar("_Item")


def parse_json(data: bytes) -> Any:
    """UTF-8 JSON without duplicate keys, NaN, infinities, integers past 64 bits or nesting past 64 levels.

    Raises ArtifactError.
    """
    try:
        value = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_unique_keys,
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=_integer_of_64_bits,
        )
    except ArtifactError:
        raise
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"not valid JSON ({first_line(error)})") from None
    check_json(value)
    return value


def made(kind: Callable[..., _Item], found: Mapping[str, Any], where: str) -> _Item:
    """What ``kind`` makes of a record's fields; ArtifactError, which begins with ``where``, for bad ones."""
    try:
        return kind(**found)
    except ArtifactError as error:
        raise ArtifactError(f"{where}.{error}") from None


def check_json(value: object) -> None:
    """Raises ArtifactError unless ``value`` is made of what JSON can carry there and back unchanged."""
    pending: list[tuple[object, int]] = [(value, 1)]
    while pending:
        node, depth = pending.pop()
        if depth > MAX_DEPTH:
            raise ArtifactError(f"JSON nested deeper than {MAX_DEPTH} levels")
        if isinstance(node, dict):
            for key, item in node.items():
                if not isinstance(key, str):
                    raise ArtifactError(f"JSON cannot carry a key of type {type(key).__name__}")
                pending.append((key, depth))
                pending.append((item, depth + 1))
        elif isinstance(node, list | tuple):
            pending.extend((item, depth + 1) for item in node)
        elif isinstance(node, str):
            _check_encodable(node)
        elif isinstance(node, float):
            if not math.isfinite(node):
                raise ArtifactError(f"JSON cannot carry the number {node}")
        elif isinstance(node, int):
            if node not in _INTEGERS:
                raise ArtifactError("JSON integer does not fit 64 bits")
        elif node is not None:
            raise ArtifactError(f"JSON cannot carry a {type(node).__name__}")


def record(value: object, where: str, keys: Sequence[str]) -> dict[str, Any]:
    """``value`` as a dict that has exactly ``keys``."""
    found = mapping(value, where)
    for key in keys:
        if key not in found:
            raise ArtifactError(f"{where}: the field {key!r} is missing")
    for key in found:
        if key not in keys:
            raise ArtifactError(f"{where}: unknown field {shown(key)}")
    return found


def mapping(value: object, where: str) -> dict[str, Any]:
    """``value`` as a dict."""
    if not isinstance(value, dict):
        _mismatch(where, "an object", value)
    return value


def sequence(value: object, where: str) -> list[Any]:
    """``value`` as a list; tuples pass too."""
    if not isinstance(value, list | tuple):
        _mismatch(where, "a list", value)
    return list(value)


def instance(value: object, where: str, kind: type[_Item]) -> _Item:
    """``value`` as a ``kind``."""
    if not isinstance(value, kind):
        _mismatch(where, f"a {kind.__name__}", value)
    return value


def text(value: object, where: str, *, empty: bool = False) -> str:
    """``value`` as a string of at most 4096 characters that UTF-8 can carry."""
    if not isinstance(value, str):
        _mismatch(where, "a string", value)
    if not value and not empty:
        raise ArtifactError(f"{where}: must not be empty")
    if len(value) > MAX_TEXT:
        raise ArtifactError(f"{where}: longer than {MAX_TEXT} characters")
    _check_encodable(value, where)
    return value


def integer(value: object, where: str, low: int, high: int) -> int:
    """``value`` as an int within ``low`` and ``high``, both included; a bool is not one."""
    if not isinstance(value, int) or isinstance(value, bool):
        _mismatch(where, "an integer", value)
    if not low <= value <= high:
        raise ArtifactError(f"{where}: {shown(value)} is not within {low} and {high}")
    return value


def number(value: object, where: str) -> float:
    """``value`` as a finite number; a bool is not one."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        _mismatch(where, "a finite number", value)
    return float(value)


def boolean(value: object, where: str) -> bool:
    """``value`` as True or False."""
    if not isinstance(value, bool):
        _mismatch(where, "true or false", value)
    return value


def dtype(value: object, where: str) -> str:
    """``value`` as the name of a dtype that artifacts can hold."""
    if not isinstance(value, str) or value not in DTYPES:
        raise ArtifactError(f"{where}: {shown(value)} is not a dtype of artifacts ({', '.join(DTYPES)})")
    return value


def unique(names: Iterable[str], where: str) -> None:
    """Raises ArtifactError if a name comes twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ArtifactError(f"{where}: {shown(name)} appears twice")
        seen.add(name)


def _mismatch(where: str, expected: str, value: object) -> NoReturn:
    raise ArtifactError(f"{where}: expected {expected}, got {shown(value)}")


def shown(value: object, letters: int = 40) -> str:
    """A value for a message: a string is cut short, and of anything large the type is named."""
    if value is None or isinstance(value, bool | float) or (isinstance(value, int) and value in _INTEGERS):
        return repr(value)
    return repr(value[:letters]) if isinstance(value, str) else f"a value of type {type(value).__name__}"


def _check_encodable(value: str, where: str = "JSON string") -> None:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise ArtifactError(f"{where}: holds a lone surrogate, which UTF-8 cannot carry") from None


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        unique((key for key, _ in pairs), "JSON object")
    return result


def _no_constant(name: str) -> NoReturn:
    raise ArtifactError(f"JSON cannot carry the number {name}")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ArtifactError("JSON number does not fit a 64-bit float")
    return value


def _integer_of_64_bits(digits: str) -> int:
    # The length comes first because Python refuses, or takes long over, thousands of digits.
    if len(digits) > 20 or int(digits) not in _INTEGERS:
        raise ArtifactError("JSON integer does not fit 64 bits")
    return int(digits)
