"""AutoTVM's records, version 0.2: reading one line, strictly."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from relay_layout.errors import InputError
from topi_ext.messages import json_reason
from topi_ext.tune.records.record import is_time

VERSION = 0.2
"""The version of log lines that AutoTVM wrote up to its end."""

_MOST = 1 << 31
_ERRORS = {
    1: "its schedule could not be made",
    2: "it did not compile on the host",
    3: "it did not compile on the device",
    4: "it did not run",
    5: "its result was wrong",
    6: "it took too long to compile",
    7: "it took too long to run",
    8: "an unknown error",
}


@dataclass(frozen=True)
class AutoTvmRecord:
    """One measurement of AutoTVM.

    ``seconds`` is empty where ``error`` says why it failed. ``knobs`` are the entities of its configuration
    by name: a list of factors, outer to inner, for a split. ``timestamp`` is in seconds since 1970, 0 where
    unknown.
    """

    target: str
    task: str
    arguments: Sequence[Any]
    knobs: Mapping[str, Any]
    seconds: tuple[float, ...]
    error: str
    timestamp: float
    tvm_version: str

    def inner(self, *names: str) -> int | None:
        """The innermost factor of the first of these splits that there is."""
        for name in names:
            factors = self.knobs.get(name)
            if isinstance(factors, list) and factors and is_extent(factors[-1]):
                return int(factors[-1])
        return None


def parse_line(text: str) -> AutoTvmRecord:
    """The record of one line; InputError with the first thing that is wrong with it."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        _refuse(f"not JSON: {json_reason(error)}")
    except (ValueError, RecursionError):
        _refuse("not readable as JSON")
    if not isinstance(found, dict) or "input" not in found:
        _refuse("not a record of AutoTVM")
    if found.get("version") != VERSION:
        _refuse(f"unknown version {_shown(found.get('version'))}; only {VERSION} is known")
    target, task, arguments, _ = _four(found, "input")
    if not isinstance(target, str) or not isinstance(task, str) or not isinstance(arguments, list):
        _refuse("input: expected target, task, arguments and keyword arguments")
    costs, error_number, _, timestamp = _four(found, "result")
    if not isinstance(error_number, int) or isinstance(error_number, bool):
        _refuse("result: expected the number of an error")
    seconds: tuple[float, ...] = ()
    if error_number == 0:
        if not isinstance(costs, list) or not costs or not all(map(is_time, costs)):
            _refuse("result: expected a list of run times above 0")
        seconds = tuple(map(float, costs))
    return AutoTvmRecord(
        target=target,
        task=task,
        arguments=arguments,
        knobs=_knobs(found.get("config")),
        seconds=seconds,
        error=_ERRORS.get(error_number, f"error {error_number}") if error_number else "",
        timestamp=float(timestamp) if is_time(timestamp) else 0.0,
        tvm_version=str(found.get("tvm_version", "")),
    )


def is_extent(value: Any) -> bool:
    """Is it a whole number above 0, of a size that a tensor can have?"""
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < _MOST


def tensor_of(value: Any, rank: int) -> tuple[tuple[int, ...], str]:
    """Shape and dtype of a tensor argument; InputError for anything else, or another rank."""
    if isinstance(value, list) and len(value) == 3 and value[0] == "TENSOR":
        _, shape, dtype = value
        if isinstance(shape, list) and all(map(is_extent, shape)) and isinstance(dtype, str):
            if len(shape) != rank:
                _refuse(f"a tensor of rank {len(shape)} where the task has one of rank {rank}")
            return tuple(shape), dtype
    _refuse(f"expected a tensor, not {_shown(value)}")


def _four(found: Mapping[str, Any], name: str) -> list[Any]:
    items = found.get(name)
    if not isinstance(items, list) or len(items) != 4:
        _refuse(f"{name}: expected a list of 4")
    return items


def _knobs(config: Any) -> dict[str, Any]:
    entity = config.get("entity") if isinstance(config, dict) else None
    if not isinstance(entity, list):
        _refuse("config: expected an object with a list 'entity'")
    knobs = {}
    for item in entity:
        if not isinstance(item, list) or len(item) != 3 or not isinstance(item[0], str):
            _refuse("config: expected a name, a kind and a value for each knob")
        knobs[item[0]] = item[2]
    return knobs


def _shown(value: Any) -> str:
    return json.dumps(value)[:60]


def _refuse(reason: str) -> NoReturn:
    raise InputError(reason)
