"""Whether parsed JSON has the fields and types of a TypedDict."""

import types
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from relay_layout.errors import InputError


def check(value: Any, kind: Any, where: str) -> None:
    """InputError, naming the place, unless ``value`` is what ``kind`` says; more fields are fine."""
    if kind is Any:
        return
    if is_typeddict(kind):
        _check_fields(value, kind, where)
    elif get_origin(kind) is list:
        _expect(isinstance(value, list), where, "a list")
        for place, element in enumerate(value):
            check(element, get_args(kind)[0], f"{where}[{place}]")
    elif get_origin(kind) is dict:
        _expect(isinstance(value, dict), where, "an object")
        for name, element in value.items():
            check(element, get_args(kind)[1], f"{where}.{name}")
    elif get_origin(kind) in (Union, types.UnionType):
        _check_union(value, get_args(kind), where)
    elif get_origin(kind) is Literal:
        _expect(value in get_args(kind), where, " or ".join(map(repr, get_args(kind))))
    elif kind is float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        _expect(number, where, "a number")
    elif kind is int:
        _expect(isinstance(value, int) and not isinstance(value, bool), where, "a whole number")
    else:
        _expect(isinstance(value, kind), where, {str: "a text", bool: "true or false"}.get(kind, "nothing"))


def _check_fields(value: Any, kind: Any, where: str) -> None:
    _expect(isinstance(value, dict), where, "an object")
    for name, field in _fields(kind).items():
        if name not in value:
            raise InputError(f"{where}: the field '{name}' is missing")
        check(value[name], field, f"{where}.{name}")


def _check_union(value: Any, kinds: tuple[Any, ...], where: str) -> None:
    if value is None and types.NoneType in kinds:
        return
    others = [kind for kind in kinds if kind is not types.NoneType]
    errors = []
    for kind in others:
        try:
            check(value, kind, where)
        except InputError as error:
            errors.append(error)
        else:
            return
    raise errors[0]


@cache
def _fields(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _expect(holds: bool, where: str, expected: str) -> None:
    if not holds:
        raise InputError(f"{where}: expected {expected}")
