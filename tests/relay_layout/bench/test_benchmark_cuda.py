"""The benchmark's arguments, and what it says where it cannot measure."""

import pytest

from scripts.benchmark_cuda import main


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
