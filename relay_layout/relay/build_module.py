"""``relay.build``: Relax modules and Relay functions to something that runs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import tvm
from tvm import relax

from relay_layout.artifact import Artifact, read_artifact, write_artifact
from relay_layout.compiler import compile as compile_module
from relay_layout.environment.one_at_a_time import one_at_a_time
from relay_layout.errors import InputError, ModelError
from relay_layout.graph.border import input_names
from relay_layout.ir import constant, dtype_of, function_attributes, shape_of, with_main
from relay_layout.relay.bound_parameters import parameters_of, with_parameters
from relay_layout.relay.building.disassembly import assembly
from relay_layout.relay.building.results import form_of, nested, with_flat_results
from relay_layout.relay.building.targets import asked_threads, build_target
from relay_layout.relay.callbacks import ALTER
from relay_layout.relay.expression import TupleWrapper
from relay_layout.relay.graph_executor import GraphModule, RuntimeModule, check_device
from relay_layout.relay.params import as_arrays
from relay_layout.relay.syntax import free_variables, tree
from relay_layout.relay.transform import AlterOpLayout, Legalize
from relay_layout.relay.trees.rebuilding import bind
from relay_layout.rewrite.canonicalize import canonicalize
from relay_layout.runtime.cpu import aligned
from relay_layout.runtime.session import Session
from relay_layout.targets import BuildTarget, CudaTarget


class GraphExecutorFactoryModule:
    """A built network: ``library["default"](tvm.cpu())`` is one that runs.

    ``graph, lib, params = library`` gives the three things that older Relay had in its place.
    """

    def __init__(
        self, artifact: Artifact, mod_name: str | None, bound: Mapping[str, np.ndarray] | None = None
    ) -> None:
        self.artifact = artifact
        self.libmod_name = mod_name
        self._bound = dict(bound or {})

    def __getitem__(self, name: str) -> Callable[..., RuntimeModule]:
        """The function that makes a runtime module for a device. AttributeError for another name.

        That of "debug_create" takes the network's name before the device.
        """
        if name == "debug_create":
            return lambda module_name, *devices: self[module_name](*devices)
        if self.libmod_name is not None and name not in (self.libmod_name, "default"):
            raise AttributeError(f"there is no function '{name}', only '{self.libmod_name}'")
        return self._create

    def _create(self, *devices: Any) -> RuntimeModule:
        check_device(devices, self.device.type)
        session = Session(self.artifact, threads=asked_threads())
        return RuntimeModule(session, parameters_of(self.artifact.manifest))

    def __iter__(self) -> Iterator[Any]:
        return iter((self.get_graph_json(), self.get_lib(), self.get_params()))

    @property
    def device(self) -> Any:
        """The device that it runs on, ``tvm.cpu()`` or ``tvm.cuda()``."""
        on_gpu = self.artifact.manifest.builds[-1].target["kind"] == "cuda"
        return tvm.cuda() if on_gpu else tvm.cpu()

    @property
    def params(self) -> dict[str, Any]:
        """The same as :meth:`get_params`."""
        return self.get_params()

    @property
    def lib(self) -> GraphExecutorFactoryModule:
        """The same as :meth:`get_lib`."""
        return self

    @property
    def graph_json(self) -> str:
        """The same as :meth:`get_graph_json`."""
        return self.get_graph_json()

    def get_params(self) -> dict[str, Any]:
        """The parameters that ``relay.build`` was given, as tensors by name.

        They are part of the network; setting them on a runtime module is allowed and does nothing, of a
        library that was loaded from a file as well, which itself has none here.
        """
        return {name: tvm.runtime.tensor(array) for name, array in self._bound.items()}

    def get_lib(self) -> GraphExecutorFactoryModule:
        """This: code, weights and description are one thing."""
        return self

    def get_source(self, fmt: str = "") -> str:
        """The machine code as assembly, as the disassembler of this machine prints it.

        InputError for other formats than "asm", and where there is no disassembler.
        """
        return assembly(self.artifact.contents[-1].library, fmt)

    def get_graph_json(self) -> str:
        """Inputs and outputs as a graph of a single operator, in the form of Relay's graph JSON."""
        manifest = self.artifact.manifest
        inputs = [{"op": "null", "name": spec.name, "inputs": []} for spec in manifest.inputs]
        attributes = {
            "func_name": "main",
            "num_inputs": str(len(inputs)),
            "num_outputs": str(len(manifest.outputs)),
            "flatten_data": "0",
        }
        call = {
            "op": "tvm_op",
            "name": "main",
            "attrs": attributes,
            "inputs": [[position, 0, 0] for position in range(len(inputs))],
        }
        tensors = (*manifest.inputs, *manifest.outputs)
        graph = {
            "nodes": [*inputs, call],
            "arg_nodes": list(range(len(inputs))),
            "heads": [[len(inputs), position, 0] for position in range(len(manifest.outputs))],
            "attrs": {
                "shape": ["list_shape", [list(spec.shape) for spec in tensors]],
                "dltype": ["list_str", [spec.dtype for spec in tensors]],
            },
            "node_row_ptr": [*range(len(inputs) + 1), len(tensors)],
        }
        return json.dumps(graph, indent=2)

    def get_executor_config(self) -> str:
        """The same as :meth:`get_graph_json`."""
        return self.get_graph_json()

    def get_devices(self) -> list[str]:
        """Devices apart from the CPU."""
        return [kind for kind in (self.device.type,) if kind != "cpu"]

    def export_library(self, file_name: str | os.PathLike[str], *unused: object, **options: object) -> None:
        """Write everything to one file, whatever its suffix; :func:`load_module` reads it.

        Options of TVM's for compiling and packing are ignored. ArtifactError where it cannot be written.
        """
        write_artifact(file_name, self.artifact.manifest, self.artifact.contents)


@one_at_a_time
def build(
    ir_mod: Any,
    target: Any = None,
    target_host: Any = None,
    executor: Any = None,
    runtime: Any = None,
    workspace_memory_pools: Any = None,
    constant_memory_pools: Any = None,
    params: Mapping[str, Any] | None = None,
    mod_name: str = "default",
) -> GraphExecutorFactoryModule:
    """Compile a module or a Relay function for a CPU or a CUDA GPU, with values for parameters of main.

    ``target`` is as Relay took it; ``"llvm"`` is this machine, ``"cuda"`` its GPU. Within
    ``PassContext(opt_level=3)`` layouts are chosen for the target, as Relay's AlterOpLayout did, and
    callbacks for it are asked; below that, or with AlterOpLayout among the disabled passes, layouts stay as
    they are in the module. Parameters that main does not have are ignored, as Relay did. Inputs and results
    of bfloat16 are float32. Results in tuples within a tuple are outputs in order.

    ModelError, TargetError and other members of :class:`RelayLayoutError` for what cannot be built.
    """
    if isinstance(executor, Mapping) and params is None:
        # Where Relay's parameters, and the name after them, were before version 0.8.
        executor, runtime, params, mod_name = None, None, executor, runtime or mod_name
    if runtime is not None and str(runtime).split("{")[0] != "cpp":
        raise ValueError(f"runtime {runtime}: only the runtime cpp is there")
    if executor is not None and str(executor).split("{")[0] not in ("graph", "vm"):
        raise ValueError(f"executor {executor}: only the graph executor is there")
    if target_host is not None:
        build_target(target_host)
    resolved = build_target(target)
    module, bound = bind_params(as_module(ir_mod), params)
    module = with_flat_results(_legalized(module))
    module, layout = altered(module, resolved)
    compiled = compile_module(module, target=resolved, desired_layout=layout)
    contents = tuple(
        replace(content, weights={name: _copied(array) for name, array in content.weights.items()})
        for content in compiled.contents
    )
    artifact = Artifact(mod_name, with_parameters(compiled.manifest, bound), contents)
    return GraphExecutorFactoryModule(artifact, mod_name, bound)


def altered(module: tvm.IRModule, target: BuildTarget) -> tuple[tvm.IRModule, str]:
    """The module as callbacks of AlterOpLayout altered it, and the ``desired_layout`` to compile it with."""
    if not _alters_layouts():
        return module, "none"
    if not ALTER:
        return module, "auto"
    with target.tvm_target:
        return AlterOpLayout()(canonicalize(module)), "none"


def optimize(
    mod: Any, target: Any = None, params: Mapping[str, Any] | None = None
) -> tuple[tvm.IRModule, dict[str, Any]]:
    """The module that :func:`build` would lower, and no parameters, which are constants in it."""
    module, _ = bind_params(as_module(mod), params)
    module = canonicalize(_legalized(module))
    if _alters_layouts():
        with build_target(target).tvm_target:
            module = AlterOpLayout()(module)
    return module, {}


def load_module(path: str | os.PathLike[str]) -> GraphExecutorFactoryModule:
    """What ``export_library`` wrote, in place of ``tvm.runtime.load_module``.

    ArtifactError where it is damaged or was built for another machine.
    """
    return GraphExecutorFactoryModule(read_artifact(path), None)


def create_executor(
    kind: str = "debug",
    mod: Any = None,
    device: Any = None,
    target: Any = "llvm",
    params: Mapping[str, Any] | None = None,
) -> Executor:
    """An executor whose ``evaluate()`` gives a function of main's inputs; all kinds compile alike.

    ValueError for a kind that Relay does not have.
    """
    if kind not in ("debug", "graph", "vm", "aot"):
        raise ValueError(f"executor kind '{kind}' is not known; use 'graph' or 'vm'")
    if device is not None:
        check_device(device, "cuda" if isinstance(build_target(target), CudaTarget) else "cpu")
    return Executor(mod, target, params)


class Executor:
    """Makes functions of arrays from functions of tensors."""

    def __init__(self, mod: Any, target: Any, params: Mapping[str, Any] | None) -> None:
        self.mod = mod
        self.target = target
        self.params = params

    def evaluate(self, expr: Any = None, binds: Mapping[tree.Var, Any] | None = None) -> Any:
        """A function that takes arrays in the order of the inputs, or by name.

        It returns a tensor, or a list of several, with lists in it for tuples within a tuple. Of an
        expression that is no function, and has no free variables, its value. ``binds`` are values for free
        variables of ``expr``.
        """
        if expr is None or isinstance(expr, tree.GlobalVar):
            if self.mod is None:
                raise ValueError("evaluate() needs an expression where the executor has no module")
            expr = self.mod
        if binds:
            expr = bind(expr, binds)
        built = as_module(expr)
        form = form_of(main_function(built).ret_ty)
        library = build(built, self.target, params=self.params)
        module = GraphModule(library["default"](library.device))

        def call(*arguments: Any, **keywords: Any) -> Any:
            names = list(module.get_input_info()[0])
            if len(arguments) > len(names):
                raise InputError(f"{len(arguments)} arguments are given; the function takes {len(names)}")
            given = dict(zip(names, arguments, strict=False))
            twice = sorted(given.keys() & keywords.keys())
            if twice:
                raise InputError(f"input '{twice[0]}' is given twice")
            module.run(**given, **keywords)
            return nested(form, map(module.get_output, range(module.get_num_outputs())))

        is_value = isinstance(expr, tree.EXPRESSIONS) and not isinstance(expr, tree.Function)
        return call() if is_value and not free_variables(expr) else call


def as_module(source: Any) -> tvm.IRModule:
    """A Relax module of a module, a function or an expression. TypeError for anything else."""
    if isinstance(source, tvm.IRModule):
        return source
    if isinstance(source, tree.Expression | TupleWrapper | relax.Function):
        return tvm.IRModule.from_expr(source)
    raise TypeError(f"a module or a function is needed, not {type(source).__name__}")


def bind_params(
    module: tvm.IRModule, params: Mapping[str, Any] | None
) -> tuple[tvm.IRModule, dict[str, np.ndarray]]:
    """The module with values for parameters of main as constants, and those values.

    ModelError for a value that does not fit its parameter.
    """
    main = main_function(module)
    names = input_names(main)
    arrays = as_arrays(params)
    bound = {name: arrays[name] for name in names if name in arrays}
    if not bound:
        return module, {}
    values = {}
    for name, parameter in zip(names, main.params, strict=True):
        if name in bound:
            values[parameter] = constant(_fitting(name, bound[name], parameter))
    new = main.bind_params(values)
    if "input_names" in function_attributes(main):
        new = new.with_attr("input_names", [name for name in names if name not in bound])
    return with_main(module, new), bound


def bind_params_by_name(func: Any, params: Mapping[str, Any]) -> relax.Function:
    """A function with values for its parameters as constants; other names are ignored."""
    return bind_params(as_module(func), params)[0]["main"]


def main_function(module: tvm.IRModule) -> relax.Function:
    """The function "main". ModelError where there is none."""
    if "main" not in module or not isinstance(module["main"], relax.Function):
        raise ModelError("the module has no function main")
    return module["main"]


def _fitting(name: str, array: np.ndarray, parameter: relax.Var) -> np.ndarray:
    shape, dtype = shape_of(parameter), dtype_of(parameter)
    fits = shape is None or (
        len(shape) == array.ndim
        and all(want == have for want, have in zip(shape, array.shape, strict=True) if isinstance(want, int))
    )
    if not fits or dtype != str(array.dtype):
        wanted = ", ".join(map(str, shape or ()))
        raise ModelError(
            f"params: the value of '{name}' is {array.dtype}{list(array.shape)}, "
            f"but the parameter is {dtype}[{wanted}]"
        )
    return array


def _alters_layouts() -> bool:
    return _runs("AlterOpLayout", 3)


def _legalized(module: tvm.IRModule) -> tvm.IRModule:
    return Legalize()(module) if _runs("Legalize", 1) else module


def _runs(name: str, level: int) -> bool:
    """Whether a pass of a level belongs to what the pass context asks for."""
    context = tvm.transform.PassContext.current()
    disabled = {str(name) for name in context.disabled_pass or ()}
    return int(context.opt_level) >= level and name not in disabled


def _copied(array: np.ndarray) -> np.ndarray:
    """A copy where kernels read it the fastest. Memory that TVM owns could not be shared with a session."""
    copy = aligned(array.shape, array.dtype)
    copy[...] = array
    return copy
