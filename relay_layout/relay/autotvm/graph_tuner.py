"""``autotvm.graph_tuner``: layouts of a whole network, by times of its kernels and layout transforms."""

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax

from relay_layout.compiler import convert
from relay_layout.environment.versions import __version__
from relay_layout.errors import InputError
from relay_layout.graph.border import input_names
from relay_layout.ir import dtype_of, is_static, shape_of
from relay_layout.relay.autotvm.measure import (
    LocalRunner,
    MeasureInput,
    MeasureResult,
    RPCRunner,
    measure_option,
)
from relay_layout.relay.build_module import as_module, bind_params, main_function
from relay_layout.relay.building.targets import build_target
from relay_layout.relay.missing import refuser
from relay_layout.targets.records import records_of
from relay_layout.tuning.tasks import model_tasks
from relay_layout.tuning.transforms import transform_function
from relay_layout.tuning.turns import with_records
from topi_ext.tune.records.database import Database
from topi_ext.tune.records.log import merged, write
from topi_ext.tune.records.record import Record, TransformRecord
from topi_ext.tune.transform_tuner import TransformMeasurer

__getattr__ = refuser(__name__, "tvm.autotvm.graph_tuner")

_FilePath = str | os.PathLike[str]
_Records = _FilePath | Iterable[tuple[MeasureInput, MeasureResult]]


class BaseGraphTuner:
    """Chooses the layouts of a network at least cost, as ``relay.build`` does with the same records.

    ``graph`` is the module or function, ``input_shapes`` names its inputs: all else are weights. ``records``
    is a log of kernels, or what ``autotvm.record.load_from_file`` gives. All operators are weighed, whatever
    ``target_ops`` says, and all kernels (``max_sch_num``).
    """

    def __init__(
        self,
        graph: Any,
        input_shapes: Mapping[str, Sequence[int]],
        records: _Records,
        target_ops: Sequence[Any] | None = None,
        target: Any = None,
        max_sch_num: int = 20,
        dtype: str = "float32",
        verbose: bool = True,
        log_file: _FilePath | None = None,
        log_level: int | None = None,
        name: str = "graph_tuner",
    ) -> None:
        self._name = name
        self._verbose = verbose
        self._target = build_target(target)
        self._module = _with_weights(as_module(graph), input_shapes)
        self._kernels: list[Record] = _records_of(records)
        self._transforms: list[TransformRecord] = []
        self._chosen: float | None = None

    def benchmark_layout_transform(
        self,
        min_exec_num: int = 100,
        timeout: float = 10,
        use_rpc: bool = False,
        device_key: str | None = None,
        host: str = "127.0.0.1",
        port: int = 9190,
        n_parallel: int = 1,
        build_func: str = "default",
        layout_records: _FilePath | None = None,
        target_host: Any = None,
        infer_layout: bool = False,
        runner: LocalRunner | RPCRunner | None = None,
    ) -> None:
        """Measure the layout transforms that the choice weighs, but for those in the log ``layout_records``.

        ``infer_layout`` measures a few alone. InputError where ``use_rpc`` comes without a ``device_key``.
        """
        if layout_records is not None:
            self._transforms += _transforms_of([Path(layout_records)])
        if use_rpc and runner is None:
            if device_key is None:
                raise InputError("benchmark_layout_transform: use_rpc needs the device_key of the boards")
            runner = RPCRunner(device_key, host, port)
        found = model_tasks([self._module], self._resolved(), {"desired_layout": "auto"})
        with measure_option(runner=runner or "local").measurer(self._target) as measurer:
            measure = TransformMeasurer(
                self._target.machine,
                measurer,
                self._transforms.append,
                Database(self._transforms, measurer.cpu),
                partial(transform_function, self._target),
                versions={"relay_layout": __version__, "tvm": str(tvm.__version__)},
            )
            count = measure.measure(found.transforms)
        self._tell(f"{count} layout transforms measured")

    def run(self, **kwargs: Any) -> None:
        """Choose the layouts."""
        report = convert(self._module, desired_layout="auto", target=self._resolved()).report
        self._chosen = float(report["solver"]["objective_us"])
        self._tell(f"layouts chosen, {self._chosen / 1e3:.3f} ms estimated")

    def write_opt_sch2record_file(self, record_file: _FilePath = "graph_opt_schedule.log") -> None:
        """Write the best of each kernel and the transforms, for ``autotvm.apply_graph_best``.

        InputError before :meth:`run`; OSError where the file cannot be written.
        """
        if self._chosen is None:
            raise InputError("write_opt_sch2record_file: no layouts are chosen; call run() before it")
        write(Path(record_file), merged([*self._kernels, *self._transforms]))

    def _resolved(self) -> Any:
        return with_records(self._target, Database([*self._kernels, *self._transforms]))

    def _tell(self, line: str) -> None:
        if self._verbose:
            print(f"{self._name}: {line}", flush=True)


class DPTuner(BaseGraphTuner):
    """AutoTVM's by dynamic programming; layouts are chosen exactly by :mod:`relay_layout.choice`."""


class PBQPTuner(BaseGraphTuner):
    """AutoTVM's heuristic for graphs with many branches; layouts are chosen as by :class:`DPTuner`."""


def _with_weights(module: tvm.IRModule, inputs: Mapping[str, Sequence[int]]) -> tvm.IRModule:
    """Zeros for all parameters that are no inputs: layouts do not depend on values of weights."""
    main = main_function(module)
    weights = {
        name: np.zeros(_extents(name, parameter), dtype_of(parameter))
        for name, parameter in zip(input_names(main), main.params, strict=True)
        if name not in inputs
    }
    return bind_params(module, weights)[0]


def _extents(name: str, parameter: relax.Var) -> tuple[int, ...]:
    shape = shape_of(parameter)
    if shape is None or not is_static(shape):
        raise InputError(f"graph tuner: weight '{name}' has no fixed shape; name it in input_shapes")
    return tuple(map(int, shape))


def _records_of(records: _Records) -> list[Record]:
    if isinstance(records, str | os.PathLike):
        return records_of([Path(records)])
    return [given.record for given, _ in records]


def _transforms_of(paths: Sequence[Path]) -> list[TransformRecord]:
    return [record for record in records_of(paths) if isinstance(record, TransformRecord)]
