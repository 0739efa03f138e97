"""The graph tuner: times of transforms and kernels into one log."""

from pathlib import Path
from typing import Any

import pytest
import tvm

from relay_layout.errors import InputError
from relay_layout.relay.autotvm import callback, graph_tuner
from relay_layout.relay.autotvm.graph_tuner import DPTuner, PBQPTuner
from relay_layout.relay.autotvm.record import load_from_file
from relay_layout.relay.autotvm.task import Task
from relay_layout.relay.autotvm.tuner import GridSearchTuner
from topi_ext.tune.records.log import load
from topi_ext.tune.records.record import TransformRecord

TARGET = "llvm -mcpu=x86-64-v3"
SHAPES = {"data": (1, 3, 20, 20)}


@pytest.fixture
def log(tasks: list[Task], option: Any, tmp_path: Path) -> Path:
    path = tmp_path / "kernels.jsonl"
    GridSearchTuner(tasks[0]).tune(4, option, callbacks=[callback.log_to_file(path)])
    return path


def test_kernels_and_transforms_come_into_one_log(
    module: tvm.IRModule,
    log: Path,
    option: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(graph_tuner, "measure_option", lambda runner: option)
    tuner = DPTuner(module["main"], SHAPES, str(log), ["nn.conv2d"], TARGET)
    tuner.benchmark_layout_transform(min_exec_num=2000)
    tuner.run()
    chosen = tmp_path / "graph.jsonl"
    tuner.write_opt_sch2record_file(chosen)
    records, problems = load([chosen])
    moved = [record for record in records if isinstance(record, TransformRecord)]
    assert not problems and 0 < len(moved) < len(records)
    first, second = capsys.readouterr().out.splitlines()
    assert first == f"graph_tuner: {len(moved)} layout transforms measured"
    assert second.startswith("graph_tuner: layouts chosen, ")

    # What is on record is not measured again.
    again = PBQPTuner(module, SHAPES, load_from_file(log), ["nn.conv2d"], TARGET, verbose=False)
    again.benchmark_layout_transform(layout_records=chosen)
    again.run()
    again.write_opt_sch2record_file(tmp_path / "again.jsonl")
    assert load([tmp_path / "again.jsonl"])[0] == records
    assert not capsys.readouterr().out


def test_layouts_are_chosen_before_they_are_written(module: tvm.IRModule, log: Path) -> None:
    tuner = DPTuner(module, SHAPES, log, ["nn.conv2d"], TARGET)
    with pytest.raises(InputError) as caught:
        tuner.write_opt_sch2record_file()
    assert str(caught.value) == "write_opt_sch2record_file: no layouts are chosen; call run() before it"


def test_boards_have_a_key(module: tvm.IRModule, log: Path) -> None:
    tuner = DPTuner(module, SHAPES, log, ["nn.conv2d"], TARGET)
    with pytest.raises(InputError) as caught:
        tuner.benchmark_layout_transform(use_rpc=True)
    assert str(caught.value) == "benchmark_layout_transform: use_rpc needs the device_key of the boards"
