"""The runtimes that a benchmark compares, each behind the same small interface.

All are treated alike: the same ONNX file, float32, the same number of threads, inputs that were bound
beforehand, and outputs that end up readable as numpy arrays within the measured time. Each is set up
as its own documentation advises for latency. A runtime is imported only when it is prepared.
"""

import importlib
import importlib.metadata
import importlib.util
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np

from relay_layout.errors import InputError, RelayLayoutError
from topi_ext.files.temporary_folder import TemporaryFolder

Array = np.ndarray[Any, Any]
Inputs = Mapping[str, Array]
"""One array per graph input, in the graph's order."""


class PeerUnavailable(RelayLayoutError):
    """A runtime whose package is not installed; the message says how to install it."""


Run = Callable[[], list[Array]]
"""A model with inputs that are bound already: a call runs it, which is what is timed, and returns its outputs
in the graph's order."""

Prepared = Callable[[Inputs], Run]
"""A compiled model; called with the inputs, it binds them."""

Prepare = Callable[[Path, int], Prepared]
"""Compiles the model in a file for a number of threads."""


class Peer(Protocol):
    """A runtime that a benchmark can measure."""

    @property
    def name(self) -> str:
        """What tables and ``--peers`` call it."""

    def missing(self) -> str | None:
        """None if its packages are installed, else what is missing and how to install it."""

    def version(self) -> str:
        """The installed version of its package."""

    def prepare(self, onnx_path: Path, threads: int) -> Prepared:
        """Compile the model for this number of threads; PeerUnavailable where a package is missing."""


@dataclass(frozen=True)
class CallablePeer:
    """A peer made from a function that prepares a model."""

    name: str
    prepare_model: Prepare
    modules: tuple[str, ...] = ()
    """Names of modules that must be importable."""
    distribution: str | None = None
    """The package, as pip names it, whose version is reported."""

    def missing(self) -> str | None:
        absent = [module for module in self.modules if importlib.util.find_spec(module) is None]
        if not absent:
            return None
        return f"{self.name}: needs {', '.join(absent)}: pip install 'relay-layout[bench]'"

    def version(self) -> str:
        try:
            return importlib.metadata.version(self.distribution or self.name)
        except importlib.metadata.PackageNotFoundError:
            # Run from a checkout, the package is not installed but knows its version.
            module = importlib.import_module(self.name.replace("-", "_")) if self.name == OURS else None
            return str(getattr(module, "__version__", "unknown"))

    def prepare(self, onnx_path: Path, threads: int) -> Prepared:
        hint = self.missing()
        if hint is not None:
            raise PeerUnavailable(hint)
        return self.prepare_model(onnx_path, threads)


def prepare_relay_layout(model_path: Path, threads: int, **options: Any) -> Prepared:
    """relay-layout itself, from an artifact, or from an ONNX file that is compiled here with ``options``."""
    relay_layout: Any = importlib.import_module("relay_layout")
    if model_path.suffix == ".onnx":
        with TemporaryFolder() as directory:
            artifact = Path(directory) / "model.artifact"
            relay_layout.compile(model_path, threads=threads, **options).save(artifact)
            session = relay_layout.load(artifact, threads=threads)
    else:
        session = relay_layout.load(model_path, threads=threads)

    def bind(inputs: Inputs) -> Run:
        return lambda: list(session.run(inputs).values())

    return bind


def prepare_onnxruntime(onnx_path: Path, threads: int) -> Prepared:
    """ONNX Runtime's CPU provider with all its graph optimisations."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = onnxruntime.InferenceSession(str(onnx_path), options, providers=["CPUExecutionProvider"])

    def bind(inputs: Inputs) -> Run:
        # Arrays of the right type are read in place, so binding them first would gain nothing.
        feeds = dict(inputs)
        return lambda: cast("list[Array]", session.run(None, feeds))

    return bind


def prepare_openvino(onnx_path: Path, threads: int, precision: str = "f32") -> Prepared:
    """OpenVINO's CPU plugin for one request at a time, in float32 even where bfloat16 is at hand, or in
    ``precision``.
    """
    import openvino

    compiled = openvino.Core().compile_model(
        str(onnx_path),
        "CPU",
        {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": precision,
            "INFERENCE_NUM_THREADS": str(threads),
            "NUM_STREAMS": "1",
        },
    )
    request = compiled.create_infer_request()
    outputs = list(compiled.outputs)

    def bind(inputs: Inputs) -> Run:
        feeds = list(inputs.values())

        def run() -> list[Array]:
            results = request.infer(feeds, share_inputs=True, share_outputs=True)
            return [results[output] for output in outputs]

        return run

    return bind


def prepare_torch(onnx_path: Path, threads: int, dtype: str = "float32") -> Prepared:
    """torch compiled by Inductor: weights and inputs channels_last, batch norms folded, weights frozen,
    kernels autotuned; all of them in ``dtype``.

    Raises PeerUnavailable where Inductor finds no compiler of C++.
    """
    import torch
    from torch._inductor import config
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    from relay_layout.bench.onnx_to_torch.module import convert, to_channels_last

    try:
        get_cpp_compiler()
    except InvalidCxxCompiler:
        raise PeerUnavailable("torch: Inductor needs a compiler of C++: install g++, or set CXX") from None
    torch.set_num_threads(threads)
    kind = getattr(torch, dtype)
    module = convert(onnx_path).to(kind)

    def bind(inputs: Inputs) -> Run:
        given = [to_channels_last(array) for array in inputs.values()]
        tensors = tuple(tensor.to(kind) if tensor.is_floating_point() else tensor for tensor in given)
        # Against frozen traces that torch optimises itself (least ms, 1 thread, torch 2.13): ResNet-18 15.2
        # and 21.7, ResNet-50 35.5 and 45.3, MobileNetV2 4.8 and 5.4, SqueezeNet 3.7 and 12.3, EfficientNet-B0
        # 8.8 and 13.8, DenseNet-121 32.4 and 37.2, ConvNeXt tiny 94 and 94.
        optimized = torch.compile(module, mode="max-autotune")

        def run() -> list[Array]:
            with torch.no_grad():
                outputs = optimized(*tensors)
                return [(output.float() if output.dtype == kind else output).numpy() for output in outputs]

        # What is bound is compiled: the switch is the process's own.
        with config.patch(freezing=True), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run()
        return run

    return bind


def prepare_tvm(onnx_path: Path, threads: int) -> Prepared:
    """Apache TVM as it comes: its ONNX importer and ``tvm.compile`` for this processor."""
    # The pool reads this when it starts, and without it takes half of the processors only.
    os.environ["TVM_NUM_THREADS"] = str(threads)
    import onnx
    import tvm
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    module = from_onnx(onnx.load(onnx_path))
    host = tvm.target.Target.from_device("cpu")
    target = tvm.target.Target({"kind": "llvm", "mcpu": str(host.attrs["mcpu"]), "num-cores": threads})
    machine = relax.VirtualMachine(tvm.compile(module, target), tvm.cpu())

    def bind(inputs: Inputs) -> Run:
        tensors = [tvm.runtime.tensor(array) for array in inputs.values()]

        def run() -> list[Array]:
            result = machine["main"](*tensors)
            outputs = [result] if isinstance(result, tvm.runtime.Tensor) else list(result)
            return [output.numpy() for output in outputs]

        return run

    return bind


OURS = "relay-layout"

PEERS: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        CallablePeer(OURS, prepare_relay_layout, ("tvm",), "relay-layout"),
        CallablePeer("onnxruntime", prepare_onnxruntime, ("onnxruntime",), "onnxruntime"),
        CallablePeer("openvino", prepare_openvino, ("openvino",), "openvino"),
        CallablePeer("torch", prepare_torch, ("torch", "onnx"), "torch"),
        CallablePeer("tvm", prepare_tvm, ("tvm", "onnx"), "apache-tvm"),
    )
}
"""Every peer by name, in the order of a table's columns."""


VARIANTS: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        CallablePeer(
            "untuned", partial(prepare_relay_layout, shipped_records=False), ("tvm",), "relay-layout"
        ),
        CallablePeer(
            "untuned-bf16",
            partial(prepare_relay_layout, shipped_records=False, precision="bf16"),
            ("tvm",),
            "relay-layout",
        ),
        CallablePeer("openvino-bf16", partial(prepare_openvino, precision="bf16"), ("openvino",), "openvino"),
        CallablePeer("torch-bf16", partial(prepare_torch, dtype="bfloat16"), ("torch", "onnx"), "torch"),
    )
}
"""For those who name them: relay-layout without tuning records, in float32 or bfloat16, and other runtimes in
bfloat16."""


def find_peer(name: str) -> Peer:
    """A peer of the table, of :data:`VARIANTS`, or one of the caller's own, ``package.module:attribute``.

    Raises InputError where there is none of this name.
    """
    if name in PEERS or name in VARIANTS:
        return (PEERS | VARIANTS)[name]
    module_name, separator, attribute = name.partition(":")
    if separator:
        try:
            return cast(Peer, getattr(importlib.import_module(module_name), attribute))
        except (ImportError, AttributeError) as error:
            raise InputError(f"peer '{name}': {error}") from error
    known = ", ".join([*PEERS, *VARIANTS])
    raise InputError(f"unknown peer '{name}': known ones are {known}, or package.module:attribute")
