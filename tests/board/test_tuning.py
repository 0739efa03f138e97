"""Tuning on two emulated boards: both work, and losing one loses nothing."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from tvm.target import Target

from relay_layout.errors import RelayLayoutError
from relay_layout.lower.library.link import link_command
from relay_layout.targets import resolve_target
from relay_layout.tuning.measurers import remote_measurer
from tests.board.servers import Boards
from topi_ext.machine.processor import processor_of
from topi_ext.tune.measuring import boards as board_runner
from topi_ext.tune.measuring.cpu_measure import CpuMeasurer
from topi_ext.tune.measuring.timing import Timing
from topi_ext.tune.measuring.workplace import Workplace
from topi_ext.tune.options import TuneOptions
from topi_ext.tune.records.database import Database
from topi_ext.tune.records.log import appender, load
from topi_ext.tune.records.record import knobs_key
from topi_ext.tune.space import Space
from topi_ext.tune.task import Task
from topi_ext.tune.tuner import TuneProgress, Tuner
from topi_ext.workloads.convolution import ConvolutionWorkload

ROOT = Path(__file__).resolve().parents[2]
TARGET = Target({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a76", "num-cores": 1})
WORKLOAD = ConvolutionWorkload(
    batch=1,
    in_channels=16,
    out_channels=16,
    in_height=8,
    in_width=8,
    kernel=(3, 3),
    strides=(1, 1),
    padding=(1, 1, 1, 1),
    dilation=(1, 1),
    groups=1,
    data_layout="NCHW8c",
    kernel_layout="OIHW8i8o",
    out_layout="NCHW8c",
    dtype="float32",
    out_dtype="float32",
)
TRIALS = 8


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=":")
    monkeypatch.setattr(board_runner, "_GRACE", 3.0)


@pytest.fixture
def measurer(boards: Boards, told: list[str], patient: None) -> Iterator[CpuMeasurer]:
    boards.wait_for(2)
    measurer = CpuMeasurer(
        TARGET,
        Workplace("rpc:emulated", link_command("aarch64-linux-gnu"), remote=boards.remote, tell=told.append),
        threads=1,
        # Emulated boards are slow where the machine is busy.
        timing=Timing(1, 1, build_timeout=120.0, run_timeout=30.0),
    )
    with closing(measurer):
        yield measurer


def test_both_boards_are_used(boards: Boards, measurer: CpuMeasurer) -> None:
    # Boards of tests before this one may be gone.
    places = range(len(boards.servers))
    before = [boards.sessions(place) for place in places]
    knobs = [candidate.knobs for candidate in Space(WORKLOAD, processor_of(TARGET)).candidates[:6]]
    found = list(measurer.measure(WORKLOAD, knobs))
    assert [one.error for one in found] == [""] * 6
    used = [boards.sessions(place) - before[place] for place in places]
    asked = 2  # Each board, before its first kernel.
    assert sum(used) == 6 + asked and sum(count > 1 for count in used) == 2


@pytest.mark.parametrize("loss", ["kill", "stall"])
def test_losing_a_board_while_tuning_costs_nothing(
    boards: Boards, measurer: CpuMeasurer, told: list[str], tmp_path: Path, loss: str
) -> None:
    def lose_once(state: TuneProgress) -> None:
        if state.trials == 1:
            getattr(boards, loss)(-1)

    log = tmp_path / "log.jsonl"
    options = TuneOptions(trials=TRIALS, batch=TRIALS, strategy="random")
    tuner = Tuner(processor_of(TARGET), measurer, appender(log), Database(), options, progress=lose_once)
    try:
        result = tuner.tune([Task("small", WORKLOAD)])
    finally:
        boards.kill(-1)
        boards.add()
    records, problems = load([log])
    assert not problems
    assert (result.ended, result.failed, result.lost) == ("done", 0, 0)
    assert [record.error for record in records] == [""] * result.measured
    assert len({knobs_key(record.knobs) for record in records}) == TRIALS
    assert all("; its kernel is run on another" in line for line in told if line.startswith("lost "))


def test_a_board_without_the_instructions_is_left_out(boards: Boards, told: list[str], patient: None) -> None:
    key = "mixed"
    target = resolve_target("aarch64-cortex-a76", threads=1)
    remote = replace(boards.remote, key=key)
    knobs = [candidate.knobs for candidate in Space(WORKLOAD, target.machine).candidates[:2]]
    little = boards.add(key, cpu="cortex-a53")
    try:
        boards.wait_for(1, key)
        missing = "dotprod, fullfp16, lse, rcpc, rdm"
        line = f"the machine at {little} with key '{key}' lacks {missing}, which the kernels need"
        alone = remote_measurer(target, remote, tell=told.append)
        with closing(alone), pytest.raises(RelayLayoutError) as caught:
            list(alone.measure(WORKLOAD, knobs))
        assert str(caught.value) == f"{line}; tune for its processor, or give it another key"
        boards.add(key)
        boards.wait_for(2, key)
        with closing(remote_measurer(target, remote, tell=told.append)) as both:
            found = list(both.measure(WORKLOAD, knobs))
        assert [one.error for one in found] == ["", ""]
        # A board that is slow to come back is waited for, which is told as well.
        unfit = [one for one in told if not one.startswith(f"no machine with key '{key}' is free")]
        assert unfit in ([], [f"{line}; tuning goes on with the others"])
    finally:
        boards.kill(-1)
        boards.kill(-2)
