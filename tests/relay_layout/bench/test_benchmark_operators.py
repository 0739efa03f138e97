"""The file of operators that are measured beside ONNX Runtime."""

import pytest

onnxruntime = pytest.importorskip("onnxruntime")

from scripts import benchmark_operators  # noqa: E402
from scripts.benchmark_operators import OPERATORS, Case, main  # noqa: E402

LINES = [line for line in OPERATORS.read_text().splitlines() if not line.startswith("#")]


def test_names_are_unique() -> None:
    names = [Case.parse(line).name for line in LINES]
    assert len(names) == len(set(names)) > 200


@pytest.mark.parametrize("line", LINES, ids=lambda line: Case.parse(line).name)
def test_onnx_runtime_loads_every_line(line: str) -> None:
    model = Case.parse(line).model()
    onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def test_kinds_of_numbers() -> None:
    tensors = (
        "a int64[40] below 7; b int64[5,1] different below 5; c = float32[2] times 0; d float32[9,4] boxes"
    )
    case = Case.parse(f"name | {tensors}; e bool[50]; f float32[] from 1 | y = Identity (a) | 18")
    inputs = case.inputs()
    assert set(inputs) == {"a", "b", "d", "e", "f"} and case.opset == 18
    assert set(inputs["a"]) == set(range(7)) and set(inputs["b"].flat) == set(range(5))
    assert (inputs["d"][:, :2] <= inputs["d"][:, 2:]).all() and inputs["f"] >= 1
    assert {str(array.dtype) for array in inputs.values()} == {"int64", "float32", "bool"}


def test_a_table_of_both(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cs_pos"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(
        "| operator | relay-layout, us | ONNX Runtime, us | ratio |\n|---|---|---|---|\n| cs_pos |"
    )
    assert "\n1 operators: " in printed


def test_outputs_that_are_off(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(benchmark_operators, "TOLERANCE", 0.0)
    assert main(["cs_pos"]) == 1
    assert "cs_pos: outputs are off by 0.0e+00 of the largest" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["no-such"], "no operator has no-such in its name; "),
        (["cs_pos", "--threads", "0"], "--threads: expected a whole number from 1 on, got 0"),
    ],
)
def test_wrong_words(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main(words)
    assert raised.value.code == 2
    assert f"error: {message}" in capsys.readouterr().err
