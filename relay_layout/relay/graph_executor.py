"""``relay.graph_executor``: running what :func:`relay.build` made, as ``tvm.contrib.graph_executor`` did."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import tvm
from tvm.runtime.module import BenchmarkResult

from relay_layout.artifact import TensorSpec
from relay_layout.errors import InputError, TargetError
from relay_layout.relay.bound_parameters import BoundParameter
from relay_layout.relay.missing import missing_member
from relay_layout.relay.params import as_array, load_param_dict
from relay_layout.runtime.profiling import Profile, profile
from relay_layout.runtime.session import Session

_FUNCTIONS = (
    "get_input",
    "get_input_index",
    "get_input_info",
    "get_num_inputs",
    "get_num_outputs",
    "get_output",
    "load_params",
    "run",
    "set_input",
)


class OutputTensor:
    """A result: TVM's tensor, which TVM's functions take it for, with ``asnumpy`` as older TVM had it."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor

    def numpy(self) -> np.ndarray:
        """A copy as an array."""
        array: np.ndarray = self._tensor.numpy()
        return array

    asnumpy = numpy

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.numpy() if dtype is None else self.numpy().astype(dtype)

    def __getattr__(self, name: str) -> Any:
        if name == "_tensor":
            raise AttributeError(name)
        return getattr(self._tensor, name)

    def __dlpack__(self, **options: Any) -> Any:
        return self._tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._tensor.__dlpack_device__()

    def __tvm_ffi_object__(self) -> Any:
        return self._tensor

    def __getitem__(self, index: Any) -> Any:
        return self.numpy()[index]

    def __len__(self) -> int:
        return int(self.shape[0])

    def __repr__(self) -> str:
        return f"{self.numpy()!r}, {self.device}"

    def _shown_class(self) -> type:
        return tvm.runtime.Tensor

    __class__ = property(_shown_class)


class RunsNetwork(Protocol):
    """A network that is loaded, here or on a board."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    on_gpu: bool

    def feed(self, inputs: Mapping[str, Any]) -> None:
        """Check the inputs and keep them for :meth:`execute`."""
        ...

    def execute(self) -> list[np.ndarray]:
        """The outputs of the inputs fed last."""
        ...


class RuntimeModule:
    """One network ready to run: inputs that were set, and the outputs of the last run.

    ``bound`` are the parameters that became part of the network when it was built; giving them again is
    allowed and does nothing.
    """

    def __init__(self, session: RunsNetwork, bound: Mapping[str, BoundParameter] | None = None) -> None:
        self.session = session
        self._bound = bound or {}
        self._specs = {spec.name: spec for spec in session.inputs}
        self._values: dict[str, np.ndarray] = {}
        self._fed = False
        self._outputs: Sequence[np.ndarray] | None = None

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """One of the functions by name. AttributeError for another name."""
        if name not in _FUNCTIONS:
            raise AttributeError(f"there is no function '{name}'; there are {', '.join(_FUNCTIONS)}")
        function: Callable[..., Any] = getattr(self, name)
        return function

    def set_input(self, key: int | str, value: Any) -> None:
        """The value of an input by name or position. Numbers are converted to the input's dtype.

        InputError for an input that is not there, and for another shape.
        """
        if key in self._bound:
            self._check_bound(str(key), as_array(value))
            return
        spec = self._spec(key)
        array = as_array(value)
        # Anything else than numbers is a mistake that a conversion would hide.
        if array.dtype.kind in "biuf":
            array = array.astype(spec.dtype, copy=True)
        spec.check(array)
        self._values[spec.name] = array
        self._fed = False

    def load_params(self, params_bytes: bytes | bytearray | memoryview) -> None:
        """Inputs from the bytes of a file of parameters."""
        for name, value in load_param_dict(params_bytes).items():
            self.set_input(name, value)

    def run(self) -> None:
        """Compute the outputs. InputError where an input was not set."""
        if not self._fed:
            self.session.feed(self._values)
            self._fed = True
        self._outputs = self.session.execute()

    def get_output(self, index: int, out: Any = None) -> Any:
        """An output of the last run, copied into ``out`` if that is given.

        InputError before the first run, and for a position that is not there.
        """
        if self._outputs is None:
            raise InputError("there are no outputs before the first run()")
        if not 0 <= index < len(self._outputs):
            raise InputError(f"there is no output {index}; there are {len(self._outputs)}")
        if out is None:
            return OutputTensor(tvm.runtime.tensor(self._outputs[index]))
        if isinstance(out, np.ndarray):
            np.copyto(out, self._outputs[index])
        else:
            out.copyfrom(self._outputs[index])
        return out

    def get_input(self, key: int | str, out: Any = None) -> Any:
        """The value that an input was set to, None for none; copied into ``out`` if that is given."""
        value = self._values.get(self._spec(key).name)
        if value is None or out is None:
            return None if value is None else tvm.runtime.tensor(value)
        out.copyfrom(value)
        return out

    def get_input_index(self, name: str) -> int:
        """The position of an input, -1 where there is none of the name."""
        return list(self._specs).index(name) if name in self._specs else -1

    def get_input_info(self) -> tuple[dict[str, tuple[int | str, ...]], dict[str, str]]:
        """Shapes and dtypes of the inputs by name; a dimension that is open is a name."""
        return (
            {name: spec.shape for name, spec in self._specs.items()},
            {name: spec.dtype for name, spec in self._specs.items()},
        )

    def get_num_inputs(self) -> int:
        """How many inputs there are; parameters that were built in are none."""
        return len(self._specs)

    def get_num_outputs(self) -> int:
        """How many outputs there are."""
        return len(self.session.outputs)

    def time_evaluator(
        self,
        func_name: str,
        dev: Any,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: float = 0,
        **options: Any,
    ) -> Callable[..., BenchmarkResult]:
        """A function that runs one of the functions and gives its times in seconds.

        Each of ``repeat`` results is the mean of ``number`` calls, or of as many more as take
        ``min_repeat_ms`` together. Options of TVM's that concern cooling down are ignored.
        """
        self.check_device(dev)
        function = self[func_name]

        def measure(*arguments: Any) -> BenchmarkResult:
            function(*arguments)
            return BenchmarkResult(
                [_seconds(lambda: function(*arguments), number, min_repeat_ms) for _ in range(repeat)]
            )

        return measure

    def profile(self, repeat: int) -> tuple[Profile, dict[str, str]]:
        """Medians of ``repeat`` runs of the inputs that were set, and what each kernel computes.

        InputError where an input was not set, for a GPU's code, and for a network on a board.
        """
        if not isinstance(self.session, Session):
            raise InputError("kernels on a board are not timed one by one; use benchmark")
        # A session that is observed stays slower.
        artifact, target = self.session.artifact, self.session.target
        session = Session(artifact, threads=self.session.threads, target=target)
        build, _ = artifact.choose(target)
        calls = build.report.get("calls", [])
        operators = {call["function"]: ", ".join(call.get("operators", [])) for call in calls}
        return profile(session, self._values, repeat=repeat), operators

    def check_device(self, device: Any) -> None:
        """TargetError for another kind of device than the one that it runs on."""
        check_device(device, "cuda" if self.session.on_gpu else "cpu")

    def _spec(self, key: int | str) -> TensorSpec:
        names = list(self._specs)
        if isinstance(key, str):
            if key in self._specs:
                return self._specs[key]
        elif 0 <= key < len(names):
            return self._specs[names[key]]
        raise InputError(
            f"there is no input {key!r}; inputs are {', '.join(names) or 'none'}. "
            "Weights given to relay.build are part of what it built"
        )

    def _check_bound(self, name: str, array: np.ndarray) -> None:
        if not self._bound[name].matches(array):
            raise InputError(
                f"parameter '{name}' became part of the network in relay.build and cannot be changed; "
                "build without it in params to set it at run time"
            )


class GraphModule:
    """Inputs, runs and outputs of a network: ``GraphModule(library["default"](tvm.cpu()))``."""

    def __init__(self, module: RuntimeModule) -> None:
        if not isinstance(module, RuntimeModule):
            raise TypeError(
                f'GraphModule takes what library["default"](device) gives, not {type(module).__name__}'
            )
        self.module = module
        self.get_input = module.get_input
        self.get_input_index = module.get_input_index
        self.get_input_info = module.get_input_info
        self.get_num_inputs = module.get_num_inputs
        self.get_num_outputs = module.get_num_outputs
        self.get_output = module.get_output
        self.load_params = module.load_params

    def __getattr__(self, name: str) -> Any:
        raise missing_member(self, name, "tvm.contrib.graph_executor.GraphModule")

    def __getitem__(self, key: str) -> Callable[..., Any]:
        return self.module[key]

    def set_input(self, key: int | str | None = None, value: Any = None, **params: Any) -> None:
        """One input by name or position, and others by name; see :meth:`RuntimeModule.set_input`."""
        if key is not None:
            self.module.set_input(key, value)
        for name, array in params.items():
            self.module.set_input(name, array)

    def run(self, **input_dict: Any) -> None:
        """Compute the outputs, with further inputs by name."""
        self.set_input(**input_dict)
        self.module.run()

    def benchmark(
        self,
        device: Any,
        func_name: str = "run",
        repeat: int = 5,
        number: int = 5,
        min_repeat_ms: float | None = None,
        end_to_end: bool = False,
        **kwargs: Any,
    ) -> BenchmarkResult:
        """Times of runs in seconds: mean, median, min, max, std and results.

        Inputs may be given by name. With ``end_to_end`` setting inputs and copying outputs count as well.
        """
        self.module.check_device(device)
        for name in ("limit_zero_time_iterations", "cooldown_interval_ms", "repeats_to_cooldown"):
            kwargs.pop(name, None)
        self.set_input(**kwargs)
        if not end_to_end:
            evaluator = self.module.time_evaluator(func_name, device, number, repeat, min_repeat_ms or 0)
            return evaluator()

        def run() -> None:
            self.run(**kwargs)
            for index in range(self.get_num_outputs()):
                self.get_output(index).numpy()

        run()
        return BenchmarkResult([_seconds(run, number, min_repeat_ms or 0) for _ in range(repeat)])


def create(graph_json_str: str, libmod: Any, device: Any) -> GraphModule:
    """The module of the three things that older ``relay.build`` returned; the first only describes."""
    json.loads(graph_json_str)
    return GraphModule(libmod["default"](device))


def check_device(device: Any, wanted: str = "cpu") -> None:
    """TargetError for a device of this machine of another kind than ``wanted``, "cpu" or "cuda".

    Of a list, its first device counts.
    """
    first = device[0] if isinstance(device, list | tuple) and device else device
    kind = first if isinstance(first, str) else getattr(first, "type", None) or str(first)
    if not str(kind).startswith(wanted):
        name = "the CPU" if wanted == "cpu" else "the GPU"
        raise TargetError(f"device {kind}: what was built runs on {name}, tvm.{wanted}()")


def _seconds(function: Callable[[], Any], number: int, min_repeat_ms: float) -> float:
    """The mean time of a call: of ``number`` calls, or of more until they take ``min_repeat_ms``."""
    while True:
        start = time.perf_counter()
        for _ in range(number):
            function()
        elapsed = time.perf_counter() - start
        if elapsed * 1e3 >= min_repeat_ms:
            return elapsed / number
        number = max(number * 2, int(number * min_repeat_ms / max(elapsed * 1e3, 1e-3)))
