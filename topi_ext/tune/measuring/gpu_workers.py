"""What the processes that build and run kernels of GPUs do."""

import contextlib
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import tvm
from tvm import tirx

from topi_ext.cuda.codegen.build import machine_code_of
from topi_ext.cuda.codegen.nvcc import machine_code
from topi_ext.cuda.codegen.window_maps import provide_window_maps
from topi_ext.cuda.graph_times import graph_seconds
from topi_ext.cuda.kernel import (
    Convolution,
    Knobs,
    compile_module,
    kernel_arguments,
    kernel_calls,
    kernel_module,
    launcher,
    packed,
)
from topi_ext.cuda.multiprocessor import MULTIPROCESSORS
from topi_ext.errors import CudaError
from topi_ext.tune.measuring import product_check, workers
from topi_ext.tune.measuring.library import ENTRY, Library

Product = tuple[Convolution, Knobs]
Job: TypeAlias = "tirx.PrimFunc | Product"
"""A scheduled function of one tensor that is read and one that is written, or a product to schedule."""


def build(folder: str, link: tuple[str, ...], arch: str, job: Job) -> Library:
    """Machine code of a kernel in a new folder in ``folder``; CudaError for one that spills registers, or
    whose products by wgmma wait for one another.

    Beside the library lies the machine code that a TVM without a driver cannot put into it.
    """
    multiprocessor = MULTIPROCESSORS[arch]
    if isinstance(job, tuple):
        module = kernel_module(job[0], job[1], multiprocessor)
        calls = kernel_calls(job[1])
    else:
        module = workers.named(job.with_attr("tirx.is_scheduled", True))
        calls = [(ENTRY, (0, 1))]
    built = compile_module(module, multiprocessor)
    machine = machine_code_of(built, arch)
    spilled = sum(cubin.spilled for cubin in machine.values())
    if spilled and isinstance(job, tuple):
        raise CudaError(f"{spilled} bytes of registers are spilled")
    if any(cubin.serialized for cubin in machine.values()):
        raise CudaError("products by wgmma are serialized")
    path = workers.export(folder, link, built)
    for source, cubin in machine.items():
        (Path(path).parent / f"{source}.cubin").write_bytes(cubin.code)
    return Library(path, kernel_arguments(module, calls), calls, "cuda")


def prepare() -> None:
    """Leave Ctrl-C to the tuner, which ends its workers itself."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def run_here(kernel: Library, repeats: int, min_repeat_ms: int) -> list[float]:
    """Run times in seconds on this machine's first GPU, those of functions together.

    Data and weights come from the second-level cache where they fit it.
    """
    device = tvm.cuda(0)
    module = _loaded(kernel)
    tensors = workers.filled(kernel, device, tvm.get_global_func(workers.FILL))
    return graph_seconds(launcher(module, kernel.calls, tensors), device, repeats, min_repeat_ms)


def error_here(kernel: Library, workload: Convolution, knobs: Knobs) -> float:
    """How far a product's results on this machine's first GPU are from what they should be; see
    :func:`topi_ext.tune.measuring.product_check.largest_error`.
    """
    device = tvm.cuda(0)
    module = _loaded(kernel)
    data, weight = product_check.operands(workload)
    given = [data, packed(weight, workload, knobs)]
    # What a kernel leaves out must not be right by chance.
    rest = [np.full(shape, 77, dtype) for shape, dtype in kernel.arguments[len(given) :]]
    tensors = [tvm.runtime.tensor(array, device) for array in (*given, *rest)]
    launcher(module, kernel.calls, tensors)()
    return product_check.largest_error(tensors[-1].numpy(), data, weight, workload)


def _loaded(kernel: Library) -> Any:
    known = _stored(Path(kernel.path).parent)
    provide_window_maps()
    with machine_code(known) if known else contextlib.nullcontext():
        return tvm.runtime.load_module(kernel.path)


def _stored(folder: Path) -> Mapping[str, bytes]:
    return {path.stem: path.read_bytes() for path in folder.glob("*.cubin")}
