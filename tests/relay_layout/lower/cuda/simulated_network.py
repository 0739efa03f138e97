"""Whole networks on the simulated GPU, kernel by kernel."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from gpu_bulk import maps_of
from gpu_cases import lowered
from gpu_memory import SimulationError
from gpu_simulator import Grid
from tvm import relax, tirx

from relay_layout.ir import Constant, constant_array, operator_name
from relay_layout.layout_request import LayoutRequest
from relay_layout.lower.passes import fuse_passes, legalize_passes
from relay_layout.lower.schedule import schedule_functions
from relay_layout.rewrite.canonicalize import canonicalize
from relay_layout.rewrite.convert_layout import convert_layout
from relay_layout.targets import CudaTarget, resolve_target

SIMULATED = ("default", "tuned", "loops")
"""Kernels of our own rules; what TVM's rules schedule runs on the CPU, from its plain loops."""


class SimulatedNetwork:
    """``operators`` are those of the kernels that were simulated, in order of their first call."""

    def __init__(
        self,
        module: tvm.IRModule,
        target: str,
        precision: str = "fp32",
        layout: str = "NHWC",
        records: Sequence[Path] = (),
        run: Callable[..., None] | None = None,
    ) -> None:
        """``run`` launches every kernel in place of the simulator, those of TVM's rules too: a
        :data:`gpu_cases.Run` that is told, as ``constants``, which parameters nothing writes.
        """
        self.launch = run
        found = resolve_target(target, precision=precision, tuning_records=records)
        assert isinstance(found, CudaTarget)
        self.target = found
        module, _ = convert_layout(canonicalize(module), LayoutRequest.parse(layout), found)
        with found.tvm_target:
            passes = [*legalize_passes(found), *fuse_passes(found)]
            self.plain = tvm.transform.Sequential(passes)(canonicalize(module))
            self.scheduled, kernels = schedule_functions(self.plain, found)
        self.kernels = {kernel.name: kernel for kernel in kernels}
        self.operators: list[str] = []

    @property
    def inputs(self) -> list[str]:
        """The names of what :meth:`run` takes."""
        return [str(name) for name in self.plain["main"].attrs["input_names"]]

    def run(self, *inputs: np.ndarray) -> list[np.ndarray]:
        main = self.plain["main"]
        values: dict[Any, np.ndarray] = dict(zip(main.params, inputs, strict=True))
        for block in main.body.blocks:
            for binding in block.bindings:
                values[binding.var] = self._value(binding.value, values)
        result = main.body.body
        fields = result.fields if isinstance(result, relax.Tuple) else [result]
        found = [_of(field, values) for field in fields]
        return [one for each in found for one in (each if isinstance(each, list) else [each])]

    def _value(self, value: Any, values: dict[Any, np.ndarray]) -> Any:
        name = operator_name(value)
        if name == "reshape":
            return _of(value.args[0], values).reshape([int(extent) for extent in value.ty.shape])
        if name == "call_tir":
            (result,) = value.ty_args
            types = result.fields if isinstance(result, relax.TupleType) else [result]
            arguments = [_of(argument, values) for argument in value.args[1].fields]
            outs = [np.zeros([int(extent) for extent in each.shape], str(each.dtype)) for each in types]
            constants = [place for place, one in enumerate(value.args[1].fields) if isinstance(one, Constant)]
            found = self._called(value.args[0], [*arguments, *outs], constants)[len(arguments) :]
            return found if isinstance(result, relax.TupleType) else found[0]
        if isinstance(value, relax.Tuple):
            return [_of(field, values) for field in value.fields]
        if isinstance(value, relax.TupleGetItem):
            return _of(value.tuple_value, values)[value.index]
        if isinstance(value, relax.Call):
            raise SimulationError(f"what {name} does is not simulated")
        return _of(value, values)

    def _called(self, variable: Any, arrays: list[np.ndarray], constants: list[int]) -> list[np.ndarray]:
        """All arrays, of which the last are written; nothing ever writes those at ``constants``."""
        kernel = self.kernels.get(variable.name_hint)
        if kernel is None:
            raise SimulationError(f"TVM has several kernels for {variable.name_hint}")
        if kernel.source not in SIMULATED and self.launch is None:
            return _on_the_cpu(self.plain[variable], arrays)
        self.operators += [kernel.operator] if kernel.operator not in self.operators else []
        func = self.scheduled[variable]
        names = [parameter.name for parameter in func.params]
        if len(set(names)) < len(names):
            raise SimulationError(f"parameters of {variable.name_hint} have one name")
        flat = dict(zip(names, (np.array(array).reshape(-1) for array in arrays), strict=True))
        if self.launch is not None:
            kept = [names[place] for place in constants]
            self.launch(func, self.target.multiprocessor, flat, constants=kept)
        else:
            device = lowered(func, self.target.multiprocessor)
            Grid(device, flat | maps_of(func, flat)).run()
        return [flat[name].reshape(array.shape) for name, array in zip(names, arrays, strict=True)]


def _of(expression: Any, values: dict[Any, np.ndarray]) -> np.ndarray:
    return constant_array(expression) if isinstance(expression, Constant) else values[expression]


def _on_the_cpu(func: tirx.PrimFunc, arrays: list[np.ndarray]) -> list[np.ndarray]:
    named = tvm.IRModule({"main": func.with_attr("global_symbol", "main")})
    compiled = tvm.compile(named, tvm.target.Target({"kind": "llvm"}))
    tensors = [tvm.runtime.tensor(np.ascontiguousarray(array)) for array in arrays]
    compiled["main"](*tensors)
    return [tensor.numpy() for tensor in tensors]
