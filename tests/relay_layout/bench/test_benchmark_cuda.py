"""The benchmark's arguments, and what it says where it cannot measure."""

import json
from pathlib import Path

import pytest

from scripts.benchmark_cuda import Results, main


@pytest.mark.parametrize("batch", ["0", "many"])
def test_batches_are_whole_numbers(batch: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["resnet50", "--batches", batch])
    assert left.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"benchmark_cuda: error: argument --batches: expected a whole number of at least 1, got '{batch}'"
    )


def test_without_a_gpu_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit) as left:
        main(["resnet50", "--batches", "1", "2"])
    assert left.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        "benchmark_cuda: error: torch finds no GPU on this machine; run it on one with an NVIDIA GPU"
    )


def test_what_fails_costs_its_line_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = Results(tmp_path / "results.jsonl", {"gpu": "made up"})

    def fails(value: int) -> None:
        raise RuntimeError(f"out of memory\nat {value}")

    results.guarded("first", lambda value: results.add(value=value), 1)
    assert not results.failed
    results.guarded("second", fails, 2)
    results.guarded("third", lambda value: results.add(value=value), 3)
    assert results.failed
    lines = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert [line.get("value") for line in lines] == [1, None, 3]
    assert lines[1] == {"gpu": "made up", "name": "second", "error": "out of memory\nat 2"}
    assert capsys.readouterr().out == "second: failed: at 2\n"
