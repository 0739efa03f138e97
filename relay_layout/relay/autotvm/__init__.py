"""``autotvm``: scripts that tuned Relay's networks tune the kernels of this package.

::

    tasks = autotvm.task.extract_from_program(mod["main"], target="llvm", params=params)
    options = autotvm.measure_option(autotvm.LocalBuilder(), autotvm.LocalRunner())
    for task in tasks:
        tuner = autotvm.tuner.XGBTuner(task)
        tuner.tune(
            n_trial=min(64, len(task.config_space)),
            measure_option=options,
            callbacks=[autotvm.callback.progress_bar(64), autotvm.callback.log_to_file("tuned.jsonl")],
        )
    with autotvm.apply_history_best("tuned.jsonl"), tvm.transform.PassContext(opt_level=3):
        library = relay.build(mod, target="llvm", params=params)

Tasks are the kernels that :func:`relay_layout.relay.build` at ``opt_level=3`` compiles, in the layouts
that it chooses. Logs are those of ``relay-layout tune``, one record per line.
"""

from relay_layout.relay.autotvm import callback, graph_tuner, measure, record, task, tuner
from relay_layout.relay.autotvm.measure import (
    LocalBuilder,
    LocalRunner,
    MeasureErrorNo,
    MeasureInput,
    MeasureResult,
    RPCRunner,
    measure_option,
)
from relay_layout.relay.building.history import apply_history_best
from relay_layout.relay.building.history import apply_history_best as apply_graph_best
from relay_layout.relay.missing import refuser

__getattr__ = refuser(__name__, "tvm.autotvm")

__all__ = [
    "LocalBuilder",
    "LocalRunner",
    "MeasureErrorNo",
    "MeasureInput",
    "MeasureResult",
    "RPCRunner",
    "apply_graph_best",
    "apply_history_best",
    "callback",
    "graph_tuner",
    "measure",
    "measure_option",
    "record",
    "task",
    "tuner",
]
