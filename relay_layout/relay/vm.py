"""``relay.vm``: the same networks with the calls of Relay's virtual machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tvm.runtime.module import BenchmarkResult

from relay_layout.errors import ModelError
from relay_layout.relay.build_module import GraphExecutorFactoryModule, as_module, build, main_function
from relay_layout.relay.building.results import Form, form_of, nested
from relay_layout.relay.graph_executor import GraphModule
from relay_layout.relay.missing import refuser

__getattr__ = refuser(__name__)


class Executable(GraphExecutorFactoryModule):
    """What :func:`compile` makes, in place of ``tvm.runtime.vm.Executable``."""

    @property
    def mod(self) -> Executable:
        """This: ``exe.mod.export_library`` writes all of it."""
        return self

    form: Form = None
    """How tuples of results are nested; None where :func:`relay.load_module` read the library alone."""

    def save(self) -> tuple[bytearray, Executable]:
        """Bytecode, which only describes, and library, which is all: scripts write them to two files."""
        described = json.loads(self.get_graph_json()) | {"results": self.form}
        return bytearray(json.dumps(described, indent=2).encode()), self

    @staticmethod
    def load_exec(bytecode: bytes | bytearray, lib: GraphExecutorFactoryModule) -> Executable:
        """What :meth:`save` gave.

        TypeError unless :func:`relay.load_module` gave the library, ValueError for other bytecode.
        """
        if not isinstance(lib, GraphExecutorFactoryModule):
            raise TypeError(f"load_exec takes what relay.load_module gives, not {type(lib).__name__}")
        executable = Executable(lib.artifact, lib.libmod_name)
        try:
            executable.form = json.loads(bytes(bytecode))["results"]
        except (ValueError, TypeError, KeyError):
            raise ValueError("the bytecode is not what save() of this package's executables gave") from None
        return executable


def compile(
    mod: Any, target: Any = None, target_host: Any = None, params: Mapping[str, Any] | None = None
) -> Executable:
    """The same as :func:`relay.build`, which handles shapes with unknown dimensions as well."""
    module = as_module(mod)
    built = build(module, target, target_host, params=params)
    executable = Executable(
        built.artifact,
        built.libmod_name,
        {name: tensor.numpy() for name, tensor in built.get_params().items()},
    )
    executable.form = form_of(main_function(module).ret_ty)
    return executable


class VirtualMachine:
    """Runs what :func:`compile` made, in place of ``tvm.runtime.vm.VirtualMachine``."""

    def __init__(self, exe: GraphExecutorFactoryModule, device: Any, memory_cfg: object = None) -> None:
        self._module = GraphModule(exe["default"](device))
        self._form = exe.form if isinstance(exe, Executable) else None

    def set_input(self, func_name: str, *args: Any, **kwargs: Any) -> None:
        """Inputs of main in their order, or by name."""
        _check(func_name)
        for position, value in enumerate(args):
            self._module.set_input(position, value)
        self._module.set_input(**kwargs)

    def invoke(self, func_name: str, *args: Any, **kwargs: Any) -> Any:
        """The result of main: a tensor, or a list of several, with lists in it for tuples within a tuple.

        Of a library that was loaded without its bytecode, the list is flat.
        """
        self.set_input(func_name, *args, **kwargs)
        self._module.run()
        outputs = self.get_outputs()
        if self._form is not None:
            return nested(self._form, iter(outputs))
        return outputs if len(outputs) > 1 else outputs[0]

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """The same as ``invoke("main", ...)``."""
        return self.invoke("main", *args, **kwargs)

    def get_outputs(self) -> list[Any]:
        """The outputs of the last run."""
        return [self._module.get_output(index) for index in range(self._module.get_num_outputs())]

    def benchmark(
        self,
        device: Any,
        *args: Any,
        func_name: str = "main",
        repeat: int = 5,
        number: int = 5,
        **kwargs: Any,
    ) -> BenchmarkResult:
        """Times of runs in seconds; see :meth:`GraphModule.benchmark`."""
        self.set_input(func_name, *args)
        return self._module.benchmark(device, repeat=repeat, number=number, **kwargs)


def _check(func_name: str) -> None:
    if func_name != "main":
        raise ModelError(f"there is no function '{func_name}', only 'main'")
