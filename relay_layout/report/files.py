"""Reports as files: the data as JSON, alone or within the page that shows it."""

import json
import os
from pathlib import Path
from typing import Any

from relay_layout.errors import InputError
from relay_layout.report.page import DATA_BEGIN, DATA_END, page_of
from relay_layout.report.schema import KIND, SCHEMA, Report
from relay_layout.typed_json import check
from topi_ext.files.whole_file import opened, replaced

MOST_BYTES = 256 << 20
"""The largest file that is read as a report."""

FilePath = str | os.PathLike[str]


def check_report_path(path: FilePath) -> None:
    """InputError for a path that says neither page nor data, or in no folder."""
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"report: a path ending in .html or .json is needed, not {path!r}")
    if Path(path).suffix not in (".html", ".json"):
        raise InputError(f"report: {os.fspath(path)} must end in .html (a page) or .json (its data)")
    if not Path(path).parent.is_dir():
        raise InputError(f"report: {os.fspath(path)}: the folder {Path(path).parent} does not exist")


def write_report(path: FilePath, report: Report) -> None:
    """Write the page or the data, as the path's ending says; nothing half-written is left."""
    check_report_path(path)
    place = Path(path)
    if place.suffix == ".html":
        text = page_of(report)
    else:
        text = json.dumps(report, allow_nan=False, separators=(",", ":"))
    with replaced(place) as file:
        file.write(text.encode())


def read_report(path: FilePath) -> Report:
    """The data of a page or a JSON file. InputError for anything else, naming what is wrong where."""
    place, name = Path(path), os.fspath(path)
    try:
        if place.stat().st_size > MOST_BYTES:
            raise InputError(f"{name}: larger than {MOST_BYTES} bytes, so no report")
        with opened(place) as file:
            text = file.read().decode()
    except UnicodeDecodeError:
        raise _no_report(name, "it is no text in UTF-8") from None
    if not text.lstrip().startswith("{"):
        _, found, rest = text.partition(DATA_BEGIN)
        if not found:
            raise _no_report(name, "it holds no data of one")
        text = rest.partition(DATA_END)[0]
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise _no_report(name, "its data is not readable as JSON") from None
    return _checked(data, name)


def is_report(path: str) -> bool:
    """Whether a path names a report rather than a model; a .json file may also be a Relay module."""
    if path.endswith(".html"):
        return True
    if not path.endswith(".json") or not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return KIND.encode() in file.read(200)


def _no_report(name: str, reason: str) -> InputError:
    return InputError(f"{name}: not a report of relay-layout: {reason}; compile --report writes one")


def _checked(data: Any, name: str) -> Report:
    if not isinstance(data, dict) or data.get("kind") != KIND:
        raise _no_report(name, "it is JSON of something else")
    if data.get("schema") != SCHEMA:
        raise InputError(
            f"{name}: a report of schema {data.get('schema')!r}, and this version reads {SCHEMA}; "
            "compile again"
        )
    check(data, Report, name)
    for place, target in enumerate(data["targets"]):
        _check_places(target, f"{name}.targets[{place}]")
    return data  # type: ignore[return-value]


def _check_places(target: Any, where: str) -> None:
    nodes, transforms = len(target["nodes"]), len(target["transforms"])
    for place, edge in enumerate(target["edges"]):
        forward = 0 <= edge["source"] < edge["target"] < nodes
        if not forward or (edge["transform"] is not None and not 0 <= edge["transform"] < transforms):
            raise InputError(f"{where}.edges[{place}]: it leads nowhere")
    for kind in ("nodes", "transforms"):
        for place, each in enumerate(target[kind]):
            call = each["call"]
            if call is not None and not 0 <= call < len(target["calls"]):
                raise InputError(f"{where}.{kind}[{place}]: there is no call {call}")
