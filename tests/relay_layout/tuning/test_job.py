"""A tuning job: what is tuned on a machine counts there."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax

from relay_layout.tuning.job import Listener, Tuning, TuningJob
from tests.relax_modules import module_giving
from topi_ext.tune.measuring.measurement import Measurement
from topi_ext.tune.options import TuneOptions
from topi_ext.tune.records.log import write
from topi_ext.tune.records.record import TuningRecord


class Slow:
    """A machine on which every kernel takes a second."""

    cpu = "slow"
    builds_ahead = False

    def measure(self, workload: Any, knobs: Sequence[Any], rounds: int = 1) -> Iterator[Measurement]:
        return iter([Measurement((1.0,) * 3 * rounds) for _ in knobs])

    def measure_functions(self, functions: Sequence[Any], rounds: int = 1) -> Iterator[Measurement]:
        return self.measure(None, functions, rounds)

    def result_error(self, workload: Any, knobs: Any) -> str:
        return ""

    def close(self) -> None:
        pass


def convolution() -> tvm.IRModule:
    data = relax.Var("data", relax.TensorType([1, 16, 8, 8], "float32"))
    weight = relax.const(tvm.runtime.tensor(np.ones((16, 16, 1, 1), "float32")), "float32")
    return module_giving(relax.op.nn.conv2d(data, weight), data)


def test_what_is_tuned_on_a_slower_machine_is_what_layouts_are_chosen_by(tmp_path: Path) -> None:
    def prepared(logs: Sequence[Path]) -> Tuning:
        job = TuningJob(
            [convolution()],
            tmp_path / "own.jsonl",
            target="x86-64-v4",
            threads=2,
            records={"shipped_records": False, "tuning_records": logs},
            options=TuneOptions(trials=1),
            tasks="kernels",
        )
        return Tuning.prepare(job, job.resolved_target(), Listener())

    tuning = prepared([])
    (task,) = tuning.found.tasks
    processor = tuning.target.machine
    fast = TuningRecord(
        workload=task.workload,
        processor=processor.name,
        threads=2,
        knobs=tuning.target.kernels.choose(task.workload).knobs.to_dict(),
        seconds=(1e-6,) * 9,
        cpu="fast",
    )
    write(tmp_path / "fast.jsonl", [fast])
    tuning = prepared([tmp_path / "fast.jsonl"])
    assert tuning.database.best(task.workload, processor) == fast
    tuning.run(Slow(), Listener())
    best = tuning.database.best(task.workload, processor)
    assert best is not None and (best.cpu, best.cost) == ("slow", 1.0)
