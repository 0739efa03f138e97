"""Reports as files."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from relay_layout.errors import InputError
from relay_layout.report.files import check_report_path, is_report, read_report, write_report
from relay_layout.report.schema import Report


@pytest.mark.parametrize("name", ["again.html", "again.json"])
def test_what_is_written_is_read_back(name: str, report: Report, tmp_path: Path) -> None:
    write_report(tmp_path / name, report)
    assert read_report(tmp_path / name) == report
    assert is_report(str(tmp_path / name))
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_page_loads_nothing(compiled: Path) -> None:
    page = (compiled / "model.html").read_text()
    assert "default-src 'none'" in page
    for word in ("http://", "https://", "@import", "url("):
        assert word not in page, word


def test_names_of_a_model_end_no_element(compiled: Path) -> None:
    page = (compiled / "model.html").read_text()
    # Its own: two of data and one of code, and none that a name would open or close.
    assert page.count("</script>") == page.count("<script") == 3
    assert "<img" not in page


def test_other_endings(report: Report, tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        write_report(tmp_path / "report.txt", report)
    assert str(error.value) == f"report: {tmp_path}/report.txt must end in .html (a page) or .json (its data)"
    check_report_path("a.html")


def test_a_relay_module_is_no_report(tmp_path: Path) -> None:
    (tmp_path / "module.json").write_text('{"root": 1}')
    assert not is_report(str(tmp_path / "module.json"))
    assert not is_report("resnet18")
    assert not is_report("missing.json")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe", "it is no text in UTF-8"),
        (b"<html></html>", "it holds no data of one"),
        (b"{", "its data is not readable as JSON"),
        (b"{}", "it is JSON of something else"),
    ],
)
def test_files_that_are_no_reports(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(content)
    with pytest.raises(InputError) as error:
        read_report(path)
    no_report = f"not a report of relay-layout: {message}; compile --report writes one"
    assert str(error.value) == f"{path}: {no_report}"


def test_a_report_of_another_schema(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text('{"kind": "relay-layout report", "schema": 99}')
    with pytest.raises(InputError) as error:
        read_report(path)
    assert str(error.value) == f"{path}: a report of schema 99, and this version reads 2; compile again"


def _set(*keys: Any) -> Callable[[Any], None]:
    *outer, last, value = keys

    def change(data: Any) -> None:
        for key in outer:
            data = data[key]
        data[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_set("model", 7), "r.json.model: expected a text"),
        (_set("targets", {}), "r.json.targets: expected a list"),
        (_set("targets", 0, "nodes", 1, {}), "r.json.targets[0].nodes[1]: the field 'type' is missing"),
        (
            _set("targets", 0, "nodes", 1, "shape", 0, 1.5),
            "r.json.targets[0].nodes[1].shape[0]: expected a whole number",
        ),
        (
            _set("targets", 0, "calls", 0, "bytes", True),
            "r.json.targets[0].calls[0].bytes: expected a whole number",
        ),
        (_set("targets", 0, "edges", 0, "target", 0), "r.json.targets[0].edges[0]: it leads nowhere"),
        (_set("targets", 0, "edges", 0, "transform", 99), "r.json.targets[0].edges[0]: it leads nowhere"),
        (_set("targets", 0, "nodes", 1, "call", 99), "r.json.targets[0].nodes[1]: there is no call 99"),
        (
            _set("targets", 0, "transforms", 0, "call", -1),
            "r.json.targets[0].transforms[0]: there is no call -1",
        ),
    ],
)
def test_damaged_data(
    change: Callable[[Any], None],
    message: str,
    report: Report,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    change(report)
    Path("r.json").write_text(json.dumps(report))
    with pytest.raises(InputError) as error:
        read_report("r.json")
    assert str(error.value) == message


def test_what_is_no_path_is_refused() -> None:
    with pytest.raises(InputError, match=r"^report: a path ending in \.html or \.json is needed, not 5$"):
        check_report_path(5)  # type: ignore[arg-type]


def test_a_device_is_no_report() -> None:
    with pytest.raises(OSError, match="it is a device, not a file"):
        read_report("/dev/null")
