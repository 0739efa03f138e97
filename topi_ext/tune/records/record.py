"""One measurement: what was computed, where it ran, with which knobs, and how long it took."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timezone
from statistics import median
from typing import Any, Literal, NoReturn, get_args

from topi_ext.errors import RelayLayoutError
from topi_ext.family import Workload
from topi_ext.messages import json_reason
from topi_ext.tune.records.record_workload import (
    check_names,
    is_whole,
    kernel_workload,
    refuse,
    transform_workload,
)
from topi_ext.workloads.text import without_unset
from topi_ext.workloads.transform import LAYOUT_TRANSFORM, TransformWorkload

SCHEMA = 1
"""The version of the form of records, which their field ``schema`` names."""

ANY_THREADS = 0
"""``threads`` of a record that does not say how many it ran on; only an inherited one may."""

WRONG = "result: "
"""How the error of a kernel begins that runs, but computes something else."""

Origin = Literal["measured", "modelled", "inherited"]
"""Timed by this tuner; taken over from another one, e.g. AutoTVM; or predicted and never run."""

ORIGINS: tuple[str, ...] = get_args(Origin)
"""From the most to the least trustworthy."""


@dataclass(frozen=True)
class TuningRecord:
    """The outcome of one trial.

    ``processor`` is the name of a :class:`topi_ext.family.Machine`, ``cpu`` the model of what ran the kernel.
    ``seconds`` holds one run time for each repeat, or nothing where ``error`` says what went wrong.
    ``time`` is UTC in ISO 8601. ``knobs`` are those of ``to_dict``; whether they still fit the workload is
    known only when they are looked up.
    """

    workload: Workload
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
    written = asdict(record)
    written["workload"] = without_unset(type(record.workload), written["workload"])
    return json.dumps({"schema": SCHEMA, **written}, sort_keys=True, allow_nan=False)


def utc_now() -> str:
    """The ``time`` of a record that is taken now."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def knobs_key(knobs: Mapping[str, Any]) -> str:
    """The same text for the same knobs, whatever their order."""
    return json.dumps(dict(knobs), sort_keys=True)


def _object(text: str) -> dict[str, Any]:
    def not_a_number(name: str) -> NoReturn:
        refuse(f"holds {name}, which is no number")

    try:
        found = json.loads(text, parse_constant=not_a_number)
    except RelayLayoutError:
        raise
    except json.JSONDecodeError as error:
        refuse(f"not JSON: {json_reason(error)}")
    except (ValueError, RecursionError):  # a number of thousands of digits, or thousands of brackets
        refuse("not readable as JSON")
    if not isinstance(found, dict):
        refuse("not a JSON object")
    return found


def _kernel_record(found: dict[str, Any]) -> TuningRecord:
    _check_fields(found, TuningRecord)
    if found["origin"] not in ORIGINS:
        refuse(f"unknown origin; expected one of {', '.join(ORIGINS)}")
    return TuningRecord(
        **{
            **_measured(found, ANY_THREADS if found["origin"] == "inherited" else 1),
            "workload": kernel_workload(found["workload"]),
            "knobs": _flat("knobs", found["knobs"], (bool, int, float, str)),
        }
    )


def _transform_record(found: dict[str, Any]) -> TransformRecord:
    _check_fields(found, TransformRecord)
    return TransformRecord(**{**_measured(found, 1), "workload": transform_workload(found["workload"])})


def _check_fields(found: dict[str, Any], kind: type[Record]) -> None:
    """Takes the schema out of what was found."""
    if "schema" not in found:
        refuse("not a tuning record: it has no schema")
    schema = found.pop("schema")
    if not is_whole(schema, SCHEMA) or schema > SCHEMA:
        refuse(f"unknown schema; this version reads schema {SCHEMA}")
    check_names("record", found, {item.name for item in fields(kind)})


def _measured(found: Mapping[str, Any], least_threads: int) -> dict[str, Any]:
    """The fields of a record with those in the right types that say how it was measured."""
    if not is_whole(found["threads"], least_threads):
        refuse(f"threads: expected a whole number of at least {least_threads}")
    for name in ("processor", "error", "cpu", "time"):
        if not isinstance(found[name], str):
            refuse(f"{name}: expected a string")
    if not found["processor"]:
        refuse("processor: expected a name")
    seconds = found["seconds"]
    if not isinstance(seconds, list) or not all(map(is_time, seconds)):
        refuse("seconds: expected a list of run times above 0")
    if bool(seconds) == bool(found["error"]):
        refuse("expected either seconds or an error")
    versions = _flat("versions", found["versions"], (str,))
    return {**found, "seconds": tuple(map(float, seconds)), "versions": versions}


def is_time(value: Any) -> bool:
    """Whether a value that a log holds is a time, in whatever unit: a number above 0 and finite."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return 0 < value < math.inf


def _flat(name: str, found: Any, kinds: tuple[type, ...]) -> dict[str, Any]:
    if not isinstance(found, dict) or not all(isinstance(value, kinds) for value in found.values()):
        refuse(f"{name}: expected an object of {'strings' if kinds == (str,) else 'numbers and strings'}")
    if any(isinstance(value, float) and not math.isfinite(value) for value in found.values()):
        refuse(f"{name}: a number is too large")
    return found
