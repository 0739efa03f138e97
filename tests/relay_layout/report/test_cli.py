"""The verbs that write and read reports."""

import json
import shutil
from pathlib import Path

import pytest

from relay_layout.cli.main import main
from relay_layout.report.files import read_report, write_report
from relay_layout.report.schema import Report


@pytest.fixture
def page(compiled: Path, folder: Path) -> str:
    """The page and the artifact of the small network, in an empty folder."""
    for name in ("model.html", "model.rla"):
        shutil.copy(compiled / name, folder / name)
    return "model.html"


def test_compile_writes_a_report(folder: Path) -> None:
    text = (
        '#[version = "0.0.5"]\n'
        "def @main(%x: Tensor[(1, 8, 5, 5), float32]) { nn.relu(nn.max_pool2d(%x, pool_size=[2, 2])) }\n"
    )
    Path("model.relay").write_text(text)
    words = ["compile", "model.relay", "-o", "model.rla", "--target", "x86-64-v2,x86-64-v3", "--report"]
    assert main([*words, "model.json"]) == 0
    report = read_report("model.json")
    assert (report["model"], [target["name"] for target in report["targets"]]) == (
        "model.relay",
        ["x86-64-v2", "x86-64-v3"],
    )
    assert sorted(path.name for path in folder.iterdir()) == ["model.json", "model.relay", "model.rla"]


def test_a_report_of_another_kind(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", "resnet18", "-o", "a.rla", "--report", "a.pdf"]) == 2
    message = "relay-layout: error: report: a.pdf must end in .html (a page) or .json (its data)\n"
    assert capsys.readouterr().err == message
    assert not list(folder.iterdir())


def test_profile_puts_times_into_the_report(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "model.rla", "--threads", "1", "--repeat", "3", "--profile", "--report", page, "--json"]
    assert main(words) == 0
    captured = capsys.readouterr()
    profile = json.loads(captured.out)["profile"]
    target = read_report(page)["targets"][0]
    assert [call["microseconds"] for call in profile["calls"]] == [
        call["measured_us"] for call in target["calls"]
    ]
    assert [call["operators"] for call in profile["calls"]] == [call["operators"] for call in target["calls"]]
    assert target["profile"] is not None
    assert target["profile"]["peak_gflops"] > 1
    assert (target["profile"]["threads"], target["profile"]["repeat"]) == (1, 3)
    shares = [call["peak_share"] for call in profile["calls"] if call["peak_share"] is not None]
    assert len(shares) == 2
    assert all(0 < share < 1.5 for share in shares)
    assert "first, active" in captured.err


def test_a_profile_for_people(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "model.rla", "--threads", "1", "--repeat", "3", "--profile"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert next(line for line in lines if "GFLOP/s" in line).split() == [
        "us",
        "of",
        "run",
        "GFLOP/s",
        "of",
        "peak",
        "from",
        "computes",
    ]
    assert any(line.endswith("first, active") for line in lines)


def test_a_report_without_a_profile(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "model.rla", "--report", page]) == 2
    message = "relay-layout: error: --report needs --profile, which measures what goes into it\n"
    assert capsys.readouterr().err == message


def test_explain_reads_a_report(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", page]) == 0
    out = capsys.readouterr().out
    for expected in ("first", "4 transforms left to run", "default direct", "of intermediate results in"):
        assert expected in out, expected


def test_explain_one_operator_of_a_report(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", page, "shares"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["target x86-64-v2 (x86-64-v2, 1 thread)", "shares: nn.softmax, keeps its own"]
    assert "  reason: a block must not cut C, which nn.softmax needs as one run" in lines
    assert any(line.startswith("  active  NCHW16c -> NCHW") for line in lines)
    assert main(["explain", page, "shares", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["operators"]
    assert (found["target"], found["operator"]) == ("x86-64-v2", "nn.softmax")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["explain", "model.html", "aktive"], "there is no operator 'aktive'; did you mean active?"),
        (["explain", "model.html", "5"], "there is no operator 5; indices are 0 to 4"),
        (
            ["explain", "model.html", "re"],
            "'re' fits 2 operators: shares (index 2), result (index 4); give a whole name or an index",
        ),
        (
            ["explain", "model.html", "--desired-layout", "NHWC"],
            "model.html tells what was compiled, which --desired-layout cannot change; explain the model",
        ),
        (
            ["explain", "model.html", "--no-winograd"],
            "model.html tells what was compiled, which --no-winograd cannot change; explain the model",
        ),
        (
            ["explain", "model.html", "--target", "avx"],
            "--target: the report has no target 'avx'; name one of x86-64-v2, or leave it out for all",
        ),
        (
            ["explain", "model.rla"],
            "model 'model.rla' is no model but an artifact, compiled already: relay-layout run runs it, "
            "explain takes the model or its report",
        ),
        (
            ["diff", "model.html", "model.rla"],
            "model.rla: not a report of relay-layout: it is no text in UTF-8; compile --report writes one",
        ),
        (["diff", "model.html", "missing.html"], "missing.html: no such file"),
        (
            ["diff", "model.html", "model.html", "--targets", "a"],
            "diff: argument --targets: expected two names with a comma between them, got 'a'; "
            "see relay-layout diff --help",
        ),
    ],
)
def test_bad_input(words: list[str], message: str, page: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert capsys.readouterr().err == f"relay-layout: error: {message}\n"


def test_diff(page: str, report: Report, capsys: pytest.CaptureFixture[str]) -> None:
    report["targets"][0]["transforms"].pop(0)
    report["targets"][0]["edges"] = []
    write_report("other.json", report)
    assert main(["diff", page, "other.json", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["differences"]
    assert [each["value"] for each in found["transforms_gone"]] == ["image"]
    assert main(["diff", page, "other.json"]) == 0
    assert "transforms gone: 1" in capsys.readouterr().out.splitlines()
