"""``auto_scheduler``: scripts that tuned networks by it tune the kernels of this package.

::

    tasks, weights = auto_scheduler.extract_tasks(mod["main"], params, target="llvm")
    tuner = auto_scheduler.TaskScheduler(tasks, weights)
    options = auto_scheduler.TuningOptions(
        num_measure_trials=200,
        runner=auto_scheduler.LocalRunner(repeat=3),
        measure_callbacks=[auto_scheduler.RecordToFile("tuned.jsonl")],
    )
    tuner.tune(options)
    with auto_scheduler.ApplyHistoryBest("tuned.jsonl"), tvm.transform.PassContext(opt_level=3):
        library = relay.build(mod, target="llvm", params=params)

Tasks, logs and boards are those of :mod:`relay_layout.relay.autotvm`; the tasks of a network take turns by
what more measurements are expected to gain.
"""

from relay_layout.relay.auto_scheduler import utils
from relay_layout.relay.auto_scheduler.measure import (
    ApplyHistoryBest,
    LocalBuilder,
    LocalRPCMeasureContext,
    LocalRunner,
    RecordToFile,
    RPCRunner,
    load_records,
)
from relay_layout.relay.auto_scheduler.scheduling import (
    SearchTask,
    TaskScheduler,
    TuningOptions,
    extract_tasks,
)
from relay_layout.relay.missing import refuser

__getattr__ = refuser(__name__, "tvm.auto_scheduler")

__all__ = [
    "ApplyHistoryBest",
    "LocalBuilder",
    "LocalRPCMeasureContext",
    "LocalRunner",
    "RPCRunner",
    "RecordToFile",
    "SearchTask",
    "TaskScheduler",
    "TuningOptions",
    "extract_tasks",
    "load_records",
    "utils",
]
