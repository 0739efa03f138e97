"""Tuners that are killed in the middle, several on one log: no record is lost, none is torn."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from topi_ext.tune.records.log import load
from topi_ext.tune.records.record import TuningRecord

ROOT = Path(__file__).resolve().parents[3]
TRIALS = 12

TUNER = """
import json, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from conftest import MadeUp, made_up_seconds, square
from topi_ext.machine.processor import Processor
from topi_ext.tune.records.database import Database
from topi_ext.tune.records.log import appender
from topi_ext.tune.task import Task
from topi_ext.tune.options import TuneOptions
from topi_ext.tune.tuner import Tuner

log, trials = Path(sys.argv[1]), int(sys.argv[2])
processor = Processor("x86-64 AVX-512", 64, 32, 2, 4, 2, 32 << 10, 1 << 20, threads=2)

def seconds(knobs):
    time.sleep(0.02)
    return made_up_seconds(knobs)

def told(state):
    print(state.trials, flush=True)

database, problems = Database.load([log] if log.exists() else [])
options = TuneOptions(trials=trials, patience=10000, strategy="random")
tuner = Tuner(processor, MadeUp(seconds), appender(log), database, options, progress=told)
print("ready", flush=True)
tasks = [Task(str(size), square(64, size)) for size in range(48, 60, 2)]
result = tuner.tune(tasks)
print("done", *[state.trials for state in result.states], flush=True)
"""


def start(log: Path, trials: int) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-c", TUNER, str(log), str(trials), str(Path(__file__).parent)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
    )
    return process


def lines_of(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


def check_kills(log: Path, rounds: int, tuners: int, seed: int = 0) -> None:
    """Kill tuners that share a log, ``rounds`` times, then let one come to its end."""
    draw = random.Random(seed)
    again = f"tests.topi_ext.tune.test_killed.check_kills(Path('log'), {rounds}, {tuners}, {seed})"
    before: list[str] = []
    for turn in range(rounds):
        running = [start(log, 1000) for _ in range(tuners)]
        for process in running:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        # Between two trials, or within one, however busy the machine is.
        told = running[0].stdout
        assert told is not None
        trials = [told.readline() for _ in range(draw.randint(0, 3))]
        time.sleep(draw.uniform(0.0, 0.03))
        for process in running:
            process.send_signal(signal.SIGKILL)
            assert process.stdout is not None
            # The last may be cut off itself.
            trials += [
                line for line in process.stdout.readlines() if line[:-1].isdecimal() and line.endswith("\n")
            ]
            process.stdout.close()
            process.wait()
        after = lines_of(log)
        # What was there stays; a torn line at the end is closed by the next writer.
        whole = [line for line in before if is_record(line)]
        assert [line for line in after[: len(before)] if is_record(line)] == whole, f"{again}: turn {turn}"
        gained = sum(map(is_record, after)) - len(whole)
        assert gained >= len(trials), f"{again}: turn {turn}: {len(trials)} told, {gained} in the log"
        before = after
    last = start(log, 1)
    assert last.stdout is not None
    assert last.stdout.read().splitlines()[-1].startswith("done "), again
    last.stdout.close()
    assert last.wait() == 0
    records, problems = load([log])
    assert len(problems) <= rounds * tuners, again
    assert len(records) + len(problems) == len(lines_of(log)), again
    assert len(records) > rounds, again


def is_record(line: str) -> bool:
    try:
        TuningRecord.from_json(line)
    except Exception:
        return False
    return True


def test_a_killed_tuner_loses_no_record(tmp_path: Path) -> None:
    check_kills(tmp_path / "log.jsonl", rounds=2, tuners=2)


@pytest.mark.slow
@pytest.mark.parametrize("tuners", [1, 2])
def test_tuners_killed_in_a_loop_lose_no_record(tmp_path: Path, tuners: int) -> None:
    check_kills(tmp_path / "log.jsonl", rounds=20, tuners=tuners, seed=1)


def test_two_tuners_on_one_log(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    running = [start(log, TRIALS) for _ in range(2)]
    for process in running:
        assert process.stdout is not None
        assert f"done {' '.join([str(TRIALS)] * 6)}" in process.stdout.read().splitlines()
        process.stdout.close()
        assert process.wait() == 0
    records, problems = load([log])
    assert not problems
    assert len(records) >= 2 * 6 * TRIALS
    assert all(json.loads(line)["schema"] == 1 for line in lines_of(log))
