"""The verb ``export``."""

import json
from pathlib import Path
from typing import Any

import pytest

from relay_layout import deployment
from relay_layout.cli.main import main
from relay_layout.deployment import Exported


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """What was asked to be exported, in a folder without anything."""
    monkeypatch.chdir(tmp_path)
    asked: list[Any] = []

    def export(artifact: str, folder: Path, target: str | None) -> Exported:
        asked.append((artifact, folder, target))
        return Exported("x86-64-v3", 2**21, has_runtime=target is None)

    monkeypatch.setattr(deployment, "export_folder", export)
    return asked


def test_says_how_to_build(exported: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "net.rla", "-o", "out"]) == 0
    assert exported == [("net.rla", Path("out"), None)]
    assert capsys.readouterr().out.splitlines() == [
        "target   x86-64-v3",
        "network  2.1 MB in out",
        "runtime  TVM's, in out/cpp/lib",
        "build    cmake -S out/cpp -B build && cmake --build build && build/example out",
    ]


def test_what_to_type_names_a_folder_with_spaces_in_quotes(
    exported: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", "net.rla", "-o", "my net"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        "build    cmake -S 'my net/cpp' -B build && cmake --build build && build/example 'my net'"
    )


def test_says_what_is_missing(exported: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "net.rla", "-o", "out", "--target", "x86-64-v3", "--json"]) == 0
    captured = capsys.readouterr()
    expected = {"folder": "out", "target": "x86-64-v3", "bytes": 2**21, "has_runtime": False}
    assert json.loads(captured.out) == expected
    runtime = "runtime  put libtvm_ffi.so and libtvm_runtime*.so of that machine into out/cpp/lib"
    assert runtime in captured.err.splitlines()


def test_a_file_is_no_folder(exported: list[Any], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "out").write_text("", encoding="utf-8")
    assert main(["export", "net.rla", "-o", "out"]) == 2
    assert capsys.readouterr().err == "relay-layout: error: -o: out is a file, not a folder\n"


def test_the_folder_around_it_must_be_there(exported: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "net.rla", "-o", "none/out"]) == 2
    assert "none does not exist" in capsys.readouterr().err
