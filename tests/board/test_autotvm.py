"""A tuning script of AutoTVM's kind, whose boards are the emulated ones."""

from pathlib import Path

import numpy as np
import pytest
import tvm

from relay_layout import relay
from relay_layout.relay import autotvm
from relay_layout.relay.graph_executor import GraphModule
from tests.board.servers import Boards

ROOT = Path(__file__).resolve().parents[2]
TARGET = {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a76", "num-cores": 1}
RNG = np.random.default_rng(0)
IMAGE = RNG.standard_normal((1, 3, 12, 12)).astype("float32")
PARAMS = {"weight": RNG.standard_normal((16, 3, 3, 3)).astype("float32")}


def test_a_network_is_tuned_and_runs_on_boards(
    boards: Boards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=":")
    boards.wait_for(1)
    tracker = boards.remote
    data, weight = relay.var("data", shape=IMAGE.shape), relay.var("weight", shape=(16, 3, 3, 3))
    net = relay.nn.relu(relay.nn.conv2d(data, weight, channels=16, kernel_size=(3, 3)))
    mod = tvm.IRModule.from_expr(relay.Function([data, weight], net))

    (task,) = autotvm.task.extract_from_program(mod["main"], target=TARGET, params=PARAMS)
    log = tmp_path / "a76.jsonl"
    autotvm.tuner.GridSearchTuner(task).tune(
        n_trial=1,
        measure_option=autotvm.measure_option(
            builder=autotvm.LocalBuilder(timeout=120),
            runner=autotvm.RPCRunner(
                tracker.key, host=tracker.host, port=tracker.port, repeat=1, min_repeat_ms=1, timeout=60
            ),
        ),
        callbacks=[autotvm.callback.log_to_file(log), autotvm.callback.progress_bar(1)],
    )
    assert {result.error_no for _, result in autotvm.record.load_from_file(log)} == {0}
    assert "Progress: (1/1)" in capsys.readouterr().out

    with autotvm.apply_history_best(log), tvm.transform.PassContext(opt_level=3):
        library = relay.build(mod, target=TARGET, params=PARAMS)
    library.export_library(tmp_path / "net.tar")
    remote = autotvm.measure.request_remote(tracker.key, tracker.host, tracker.port, timeout=120)
    remote.upload(tmp_path / "net.tar")
    there = GraphModule(remote.load_module("net.tar")["default"](remote.cpu(0)))
    there.run(data=IMAGE)
    assert there.benchmark(remote.cpu(0), number=1, repeat=2).mean > 0

    here = GraphModule(relay.build(mod, target="llvm", params=PARAMS)["default"](tvm.cpu()))
    here.run(data=IMAGE)
    np.testing.assert_allclose(there.get_output(0).numpy(), here.get_output(0).numpy(), atol=1e-5)
