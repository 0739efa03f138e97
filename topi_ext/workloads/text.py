"""Workloads as JSON, in which functions and tuning records carry them."""

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any


def operator_of(annotation: str) -> str:
    """The operator a serialised workload belongs to."""
    return str(json.loads(annotation)["operator"])


def without_unset(kind: type[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a workload that are written: all but those of :func:`unset_fields` that are not set."""
    unset = unset_fields(kind)
    return {name: value for name, value in named.items() if name not in unset or value != unset[name]}


def unset_fields(kind: type[Any]) -> dict[str, Any]:
    """Fields of a workload that are written where they are set, so that others keep their name, and what they
    are otherwise: flags, and numbers that are zero.
    """
    return {item.name: item.default for item in fields(kind) if item.default in (False, 0)}


def workload_text(workload: Any) -> str:
    """One line, keys sorted; symbolic extents become their names."""
    found = {item.name: getattr(workload, item.name) for item in fields(workload)}
    plain = {
        key: [_plain(each) for each in value] if isinstance(value, (tuple, list)) else _plain(value)
        for key, value in without_unset(type(workload), found).items()
    }
    return json.dumps(plain, sort_keys=True)


def _plain(value: Any) -> Any:
    return value if isinstance(value, (int, str)) else str(value)


def with_tuples(found: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a workload that JSON has read, which makes lists of tuples."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}
