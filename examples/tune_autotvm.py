"""A tuning script as AutoTVM had it: tasks of a network, tuners, a log, and a build with what was found.

A few kernels of each task are measured here; with ``autotvm.RPCRunner`` boards would do it.
"""

import tempfile
from pathlib import Path

import numpy as np
import tvm

from relay_layout import relay
from relay_layout.relay import autotvm, graph_executor

TRIALS = 4
SHAPE = (1, 3, 32, 32)


def tune(tasks: list[autotvm.task.Task], log: Path) -> None:
    """Measure the kernels of every task and keep the best of each."""
    option = autotvm.measure_option(
        builder=autotvm.LocalBuilder(timeout=30),
        runner=autotvm.LocalRunner(repeat=3, min_repeat_ms=5, timeout=20),
    )
    trials = log.with_suffix(".tmp")
    for place, task in enumerate(tasks):
        tuner = autotvm.tuner.XGBTuner(task, loss_type="rank")
        if trials.exists():
            tuner.load_history(autotvm.record.load_from_file(trials))
        count = min(TRIALS, len(task.config_space))
        tuner.tune(
            n_trial=count,
            early_stopping=TRIALS,
            measure_option=option,
            callbacks=[
                autotvm.callback.progress_bar(count, prefix=f"[Task {place + 1:2}/{len(tasks):2}]"),
                autotvm.callback.log_to_file(str(trials)),
            ],
        )
    autotvm.record.pick_best(trials, log)


def run(library: relay.build_module.GraphExecutorFactoryModule, image: np.ndarray) -> np.ndarray:
    """The output for an image."""
    module = graph_executor.GraphModule(library["default"](tvm.cpu()))
    module.run(data=image)
    print(module.benchmark(tvm.cpu(), number=10, repeat=3))
    return module.get_output(0).numpy()


def main() -> None:
    data = relay.var("data", shape=SHAPE)
    weight, depthwise = relay.var("weight", shape=(32, 3, 3, 3)), relay.var("depthwise", shape=(32, 1, 3, 3))
    net = relay.nn.relu(relay.nn.conv2d(data, weight, channels=32, kernel_size=(3, 3), strides=(2, 2)))
    net = relay.nn.conv2d(net, depthwise, channels=32, groups=32, kernel_size=(3, 3))
    mod = tvm.IRModule.from_expr(relay.Function([data, weight, depthwise], net))
    chance = np.random.default_rng(0)
    params = {
        "weight": chance.standard_normal((32, 3, 3, 3)).astype("float32"),
        "depthwise": chance.standard_normal((32, 1, 3, 3)).astype("float32"),
    }
    image = chance.standard_normal(SHAPE).astype("float32")
    with tvm.transform.PassContext(opt_level=3):
        before = relay.build(mod, target="llvm", params=params)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "tuned.jsonl"
        tasks = autotvm.task.extract_from_program(
            mod["main"], target="llvm", params=params, ops=(relay.op.get("nn.conv2d"),)
        )
        tune(tasks, log)
        with autotvm.apply_history_best(log), tvm.transform.PassContext(opt_level=3):
            after = relay.build(mod, target="llvm", params=params)
    np.testing.assert_allclose(run(after, image), run(before, image), atol=1e-4)


if __name__ == "__main__":
    main()
