"""Reading one line of an AutoTVM log."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from relay_layout.errors import InputError
from relay_layout.tuning.autotvm import parse_line, tensor_of

DATA = Path(__file__).parents[2] / "data" / "autotvm"
LINES = [line for log in sorted(DATA.glob("*.log")) for line in log.read_text().splitlines()]
RECORDS = [line for line in LINES if not line.startswith("#")]


def changed(**fields: Any) -> str:
    return json.dumps(json.loads(RECORDS[-1]) | fields)


def test_a_record_is_read() -> None:
    line = next(line for line in RECORDS if "conv2d_NCHWc.x86" in line and "cascadelake" in line)
    found, raw = parse_line(line), json.loads(line)
    assert (found.target, found.task) == ("llvm -keys=cpu -mcpu=cascadelake", "conv2d_NCHWc.x86")
    assert found.seconds == tuple(raw["result"][0])
    assert found.error == ""
    assert found.timestamp == raw["result"][3]
    factors = dict((name, value) for name, _, value in raw["config"]["entity"])
    assert found.inner("tile_ic") == factors["tile_ic"][-1]
    assert found.inner("tile_nothing", "tile_oc") == factors["tile_oc"][-1]
    assert found.inner("unroll_kw") is None


def test_a_failure_says_why() -> None:
    line = next(line for line in RECORDS if json.loads(line)["result"][1] == 6)
    found = parse_line(line)
    assert (found.seconds, found.error) == ((), "it took too long to compile")
    raw = json.loads(line)
    raw["result"][1] = 77
    assert parse_line(json.dumps(raw)).error == "error 77"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "not JSON: Expecting value at column 1"),
        ("[" * 100_000, "not readable as JSON"),
        ("[1, 2]", "not a record of AutoTVM"),
        ("{}", "not a record of AutoTVM"),
        (changed(version=0.1), "unknown version 0.1; only 0.2 is known"),
        (changed(version="0.2"), 'unknown version "0.2"; only 0.2 is known'),
        (changed(input=["llvm"]), "input: expected a list of 4"),
        (changed(input=[1, "task", [], {}]), "input: expected target, task, arguments and keyword arguments"),
        (changed(result=None), "result: expected a list of 4"),
        (changed(result=[[1.0], "0", 1, 1]), "result: expected the number of an error"),
        (changed(result=[[], 0, 1, 1]), "result: expected a list of run times above 0"),
        (changed(result=[[-1.0], 0, 1, 1]), "result: expected a list of run times above 0"),
        (changed(result=[[float("inf")], 0, 1, 1]), "result: expected a list of run times above 0"),
        (changed(config=[]), "config: expected an object with a list 'entity'"),
        (changed(config={"entity": [["a"]]}), "config: expected a name, a kind and a value for each knob"),
    ],
)
def test_other_lines_are_refused(line: str, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_line(line)
    assert str(caught.value) == reason


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (["TENSOR", [1, 2], "float32"], "a tensor of rank 2 where the task has one of rank 4"),
        (["TENSOR", [1, 0, 2, 2], "float32"], 'expected a tensor, not ["TENSOR", [1, 0, 2, 2], "float32"]'),
        (["VAR", [1], "float32"], 'expected a tensor, not ["VAR", [1], "float32"]'),
        (None, "expected a tensor, not null"),
    ],
)
def test_other_arguments_are_no_tensors(value: Any, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        tensor_of(value, 4)
    assert str(caught.value) == reason


def test_any_damage_is_refused_or_harmless() -> None:
    draw = random.Random(0)
    for _ in range(2000):
        line = list(draw.choice(RECORDS))
        for _ in range(draw.randint(1, 3)):
            line[draw.randrange(len(line))] = draw.choice('0123456789-.,:"[]{}nulltrue eE')
        try:
            parse_line("".join(line))
        except InputError as error:
            assert "\n" not in str(error)
