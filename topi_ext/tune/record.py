"""One measurement: what was computed, where it ran, with which knobs, and how long it took."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timezone
from statistics import median
from typing import Any, Literal, NoReturn, get_args

from topi_ext.errors import RelayLayoutError
from topi_ext.knobs import DTYPE_BYTES
from topi_ext.workload import (
    LAYOUT_TRANSFORM,
    PLANES,
    ConvolutionWorkload,
    SeparableWorkload,
    TransformWorkload,
    VolumeWorkload,
    separable,
    workload_class,
)

SCHEMA = 1

ANY_THREADS = 0
"""``threads`` of a record that does not say how many it ran on; only an inherited one may."""

WRONG = "result: "
"""How the error of a kernel begins that runs, but computes something else."""

Origin = Literal["measured", "inherited", "modelled"]
"""Timed by this tuner; taken over from another one, e.g. AutoTVM; or predicted and never run."""

ORIGINS: tuple[str, ...] = get_args(Origin)
"""From the most to the least trustworthy."""

_LARGEST_EXTENT = 1 << 31
_LAYOUT = re.compile(r"(?=.*[A-Z])(?:[A-Z]|[1-9]\d{0,8}[a-z])+")
_AXES = re.compile(r"[A-Z]+")
_PAIRS = {"kernel": 2, "strides": 2, "padding": 4, "dilation": 2}
_LEAST = {"strides": 1, "kernel": 1, "padding": 0, "dilation": 1}
_EXTENTS = ("batch", "in_channels", "out_channels", "in_height", "in_width", "groups")
_LAYOUTS = ("data_layout", "kernel_layout", "out_layout")
_LEAST_OF_DEPTH = (1, 1, 1, 0, 0, 1)
"""Of :attr:`topi_ext.workload.VolumeWorkload.depth`."""
_LEAST_BEFORE = (1,) * 6 + (0,) * 4 + (1,) * 2
"""Of :attr:`topi_ext.workload.SeparableWorkload.before`."""


@dataclass(frozen=True)
class TuningRecord:
    """The outcome of one trial.

    ``processor`` is the name of a :class:`topi_ext.processor.Processor`, ``cpu`` the model of the machine.
    ``seconds`` holds one run time for each repeat, or nothing where ``error`` says what went wrong.
    ``time`` is UTC in ISO 8601. ``knobs`` are those of ``to_dict``; whether they still fit the workload is
    known only when they are looked up.
    """

    workload: ConvolutionWorkload
    processor: str
    threads: int
    knobs: Mapping[str, Any]
    seconds: tuple[float, ...]
    error: str = ""
    origin: Origin = "measured"
    cpu: str = ""
    time: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def cost(self) -> float:
        """Median run time in seconds; infinite for a trial that failed."""
        return _cost(self.seconds)

    @property
    def is_wrong(self) -> bool:
        """Does the kernel compute something else?"""
        return self.error.startswith(WRONG)

    @property
    def algorithm(self) -> str:
        """What the knobs are of, "direct" where they do not say."""
        return str(self.knobs.get("algorithm", "direct"))

    def to_json(self) -> str:
        """One line, keys sorted."""
        return _line(self)

    @staticmethod
    def from_json(text: str) -> "TuningRecord":
        """The record of one line; RelayLayoutError with the first thing that is wrong with it."""
        return _kernel_record(_object(text))


@dataclass(frozen=True)
class TransformRecord:
    """How long a layout transform took: as compilation runs it, in a function of its own.

    Fields are those of :class:`TuningRecord`. There are no knobs, and every one was measured.
    """

    workload: TransformWorkload
    processor: str
    threads: int
    seconds: tuple[float, ...]
    error: str = ""
    cpu: str = ""
    time: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def cost(self) -> float:
        """Median run time in seconds; infinite where it failed."""
        return _cost(self.seconds)

    @property
    def origin(self) -> Origin:
        """Always measured."""
        return "measured"

    def to_json(self) -> str:
        """One line, keys sorted."""
        return _line(self)


Record = TuningRecord | TransformRecord
"""What a line of a log may be."""


def record_from_json(text: str) -> Record:
    """The record of one line, of whichever kind; RelayLayoutError with the first thing that is wrong."""
    found = _object(text)
    workload = found.get("workload")
    if isinstance(workload, dict) and workload.get("operator") == LAYOUT_TRANSFORM:
        return _transform_record(found)
    return _kernel_record(found)


def _cost(seconds: Sequence[float]) -> float:
    return median(seconds) if seconds else math.inf


def _line(record: Record) -> str:
    return json.dumps({"schema": SCHEMA, **asdict(record)}, sort_keys=True, allow_nan=False)


def utc_now() -> str:
    """The ``time`` of a record that is taken now."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def knobs_key(knobs: Mapping[str, Any]) -> str:
    """The same text for the same knobs, whatever their order."""
    return json.dumps(dict(knobs), sort_keys=True)


def _refuse(reason: str) -> NoReturn:
    raise RelayLayoutError(reason)


def _object(text: str) -> dict[str, Any]:
    def not_a_number(name: str) -> NoReturn:
        _refuse(f"holds {name}, which is no number")

    try:
        found = json.loads(text, parse_constant=not_a_number)
    except RelayLayoutError:
        raise
    except json.JSONDecodeError as error:
        _refuse(f"not JSON: {error.msg} at column {error.colno}")
    except (ValueError, RecursionError):  # a number of thousands of digits, or thousands of brackets
        _refuse("not readable as JSON")
    if not isinstance(found, dict):
        _refuse("not a JSON object")
    return found


def _kernel_record(found: dict[str, Any]) -> TuningRecord:
    _check_fields(found, TuningRecord)
    if found["origin"] not in ORIGINS:
        _refuse(f"unknown origin; expected one of {', '.join(ORIGINS)}")
    return TuningRecord(
        **{
            **_measured(found, ANY_THREADS if found["origin"] == "inherited" else 1),
            "workload": _workload(found["workload"]),
            "knobs": _flat("knobs", found["knobs"], (bool, int, float, str)),
        }
    )


def _transform_record(found: dict[str, Any]) -> TransformRecord:
    _check_fields(found, TransformRecord)
    return TransformRecord(**{**_measured(found, 1), "workload": _transform(found["workload"])})


def _check_fields(found: dict[str, Any], kind: type[Record]) -> None:
    """Takes the schema out of what was found."""
    if "schema" not in found:
        _refuse("not a tuning record: it has no schema")
    schema = found.pop("schema")
    if not _is_whole(schema, SCHEMA) or schema > SCHEMA:
        _refuse(f"unknown schema; this version reads schema {SCHEMA}")
    _check_names("record", found, {item.name for item in fields(kind)})


def _measured(found: Mapping[str, Any], least_threads: int) -> dict[str, Any]:
    """The fields of a record with those in the right types that say how it was measured."""
    if not _is_whole(found["threads"], least_threads):
        _refuse(f"threads: expected a whole number of at least {least_threads}")
    for name in ("processor", "error", "cpu", "time"):
        if not isinstance(found[name], str):
            _refuse(f"{name}: expected a string")
    if not found["processor"]:
        _refuse("processor: expected a name")
    seconds = found["seconds"]
    if not isinstance(seconds, list) or not all(map(_is_time, seconds)):
        _refuse("seconds: expected a list of run times above 0")
    if bool(seconds) == bool(found["error"]):
        _refuse("expected either seconds or an error")
    versions = _flat("versions", found["versions"], (str,))
    return {**found, "seconds": tuple(map(float, seconds)), "versions": versions}


def _check_names(what: str, found: Mapping[str, Any], expected: set[str]) -> None:
    missing, unknown = sorted(expected - set(found)), sorted(set(found) - expected)
    if missing:
        _refuse(f"{what} without field '{missing[0]}'")
    if unknown:
        _refuse(f"{what} with unknown field {json.dumps(unknown[0])[:80]}")


def _is_whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < _LARGEST_EXTENT


def _are_whole(values: Any, least: Sequence[int]) -> bool:
    return (
        isinstance(values, list)
        and len(values) == len(least)
        and all(_is_whole(value, lowest) for value, lowest in zip(values, least, strict=True))
    )


def _is_time(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return 0 < value < math.inf


def _flat(name: str, found: Any, kinds: tuple[type, ...]) -> dict[str, Any]:
    if not isinstance(found, dict) or not all(isinstance(value, kinds) for value in found.values()):
        _refuse(f"{name}: expected an object of {'strings' if kinds == (str,) else 'numbers and strings'}")
    if any(isinstance(value, float) and not math.isfinite(value) for value in found.values()):
        _refuse(f"{name}: a number is too large")
    return found


def _workload(found: Any) -> ConvolutionWorkload:
    if not isinstance(found, dict):
        _refuse("workload: expected an object")
    kind = workload_class(found)
    _check_names("workload", found, {item.name for item in fields(kind)})
    for name in _EXTENTS:
        if not _is_whole(found[name], 1):
            _refuse(f"workload: {name}: expected a whole number of at least 1")
    for name, count in _PAIRS.items():
        if not _are_whole(found[name], [_LEAST[name]] * count):
            _refuse(f"workload: {name}: expected {count} whole numbers of at least {_LEAST[name]}")
    if kind is SeparableWorkload and not _are_whole(found["before"], _LEAST_BEFORE):
        _refuse("workload: before: expected 12 whole numbers: image, kernel, strides, padding, dilation")
    if kind is VolumeWorkload and not _are_whole(found["depth"], _LEAST_OF_DEPTH):
        _refuse(
            "workload: depth: expected extent, taps, stride, padding in front and behind, and dilation, as "
            "whole numbers"
        )
    for name in _LAYOUTS:
        if not isinstance(found[name], str) or not _LAYOUT.fullmatch(found[name]):
            _refuse(f"workload: {name}: expected a layout such as NCHW16c")
    for name in ("dtype", "out_dtype"):
        if not isinstance(found[name], str) or found[name] not in DTYPE_BYTES:
            _refuse(f"workload: {name}: expected a data type such as float32")
    if not isinstance(found["operator"], str):
        _refuse("workload: operator: expected a string")
    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in found.items()
    }
    workload = kind(**given)
    sides = (0, 1, PLANES) if workload.depth else (0, 1)
    if any(workload.out_extent(side) < 1 for side in sides):
        _refuse("workload: the kernel is larger than the image")
    if workload.in_channels % workload.groups or workload.out_channels % workload.groups:
        _refuse(f"workload: {workload.groups} groups do not divide the channels")
    if isinstance(workload, SeparableWorkload) and _apart(workload) != workload:
        _refuse("workload: the depthwise convolution and the pointwise one do not fit together")
    return workload


def _apart(workload: SeparableWorkload) -> SeparableWorkload | None:
    """The same made of its parts, which says whether they fit."""
    return separable(workload.depthwise, workload.pointwise)


def _transform(found: Mapping[str, Any]) -> TransformWorkload:
    _check_names("workload", found, {item.name for item in fields(TransformWorkload)})
    axes, shape = found["axes"], found["shape"]
    if not isinstance(axes, str) or not _AXES.fullmatch(axes) or len(set(axes)) != len(axes):
        _refuse("workload: axes: expected different capital letters such as NCHW")
    if not isinstance(shape, list) or len(shape) != len(axes) or not all(_is_whole(one, 1) for one in shape):
        _refuse(f"workload: shape: expected {len(axes)} whole numbers of at least 1")
    for name in ("source_layout", "target_layout"):
        layout = found[name]
        fits = isinstance(layout, str) and _LAYOUT.fullmatch(layout)
        if not fits or sorted(filter(str.isupper, layout)) != sorted(axes):
            _refuse(f"workload: {name}: expected a layout of the axes {axes}")
    if not isinstance(found["dtype"], str) or not found["dtype"]:
        _refuse("workload: dtype: expected a data type such as float32")
    return TransformWorkload(**{**found, "shape": tuple(shape)})


__all__ = [
    "ANY_THREADS",
    "ORIGINS",
    "SCHEMA",
    "WRONG",
    "Origin",
    "Record",
    "TransformRecord",
    "TuningRecord",
    "knobs_key",
    "record_from_json",
    "utc_now",
]
