"""The convolution layers of a network on a GPU beside cuDNN's; ``scripts.benchmark_cuda`` prints them."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import tvm

from relay_layout.models import build, to_relax
from relay_layout.targets import CudaTarget
from relay_layout.tuning.tasks import model_tasks
from topi_ext.cuda.gemm_space import instructions_of
from topi_ext.cuda.kernel import (
    Convolution,
    compile_module,
    kernel_arguments,
    kernel_calls,
    kernel_module,
    launcher,
    packed,
)
from topi_ext.cuda.workload import DepthwiseConvolution, NhwcConvolution


@dataclass(frozen=True)
class LayerTime:
    """Microseconds of ours and of cuDNN; ``share`` is what ours reaches by :func:`peak_share`."""

    workload: NhwcConvolution
    uses: int
    ours_us: float
    cudnn_us: float
    share: float

    def row(self) -> str:
        """One line of the table."""
        work = self.workload
        window = "x".join(map(str, work.kernel))
        image = f"{work.batch}x{work.in_height}x{work.in_width}x{work.in_channels}"
        groups = f" groups {work.groups}" if work.groups > 1 else ""
        name = f"{self.uses}x {image} -> {work.out_channels} {window} stride {work.strides[0]}{groups}"
        ratio = self.cudnn_us / self.ours_us
        return f"{name}: {self.ours_us:.1f}, {self.cudnn_us:.1f}, {ratio:.2f}, {self.share:.0%}"


def layers(name: str, batch: int, target: CudaTarget) -> dict[Convolution, int]:
    """The convolutions and dense layers of a network with their uses, most work first."""
    found = model_tasks([to_relax(build(name, batch=batch))], target).tasks
    return {task.workload: task.weight for task in found if isinstance(task.workload, NhwcConvolution)}


def peak_share(workload: NhwcConvolution, microseconds: float, target: CudaTarget) -> float:
    """The share of the peak of the instructions that kernels may use, by the board's clock in the table of
    facts; of a depthwise convolution that of the memory's bandwidth, if every byte moves once.
    """
    chip = target.multiprocessor
    if isinstance(workload, DepthwiseConvolution):
        moved = (prod(workload.data_shape) + workload.rows * workload.out_channels) * workload.element_bytes
        return moved / (chip.gigabytes_per_second * 1e3 * microseconds)
    products = max(chip.products(workload.dtype, found) for found in instructions_of(workload.dtype, chip))
    return workload.macs / (products * chip.count * chip.gigahertz * 1e3 * microseconds)


def our_layer(workload: Convolution, target: CudaTarget, device: Any, known: Mapping[str, bytes]) -> Any:
    """A call that runs the kernel by its chosen knobs on ``device``; ``known`` is machine code that is there
    already, by the digest of its source.
    """
    knobs = target.kernels.choose(workload).knobs
    chip = target.multiprocessor
    module = kernel_module(workload, knobs, chip)
    compiled = compile_module(module, chip, known)
    random = np.random.default_rng(0)
    shape = (workload.out_channels, *workload.kernel, workload.group_channels)
    weight = packed(random.standard_normal(shape).astype("float32"), workload, knobs)
    data = random.standard_normal(workload.data_shape).astype(workload.data_dtype)
    calls = kernel_calls(knobs)
    arguments = [tvm.runtime.tensor(array, device) for array in (data, weight)]
    arguments += [
        tvm.runtime.empty(shape, dtype, device) for shape, dtype in kernel_arguments(module, calls)[2:]
    ]
    return launcher(compiled, calls, arguments)


def cudnn_layer(workload: NhwcConvolution, torch: Any) -> Any:
    """A call that runs the same layer by torch: cuDNN, channels last.

    Whether it is in TF32 is up to torch's settings when it runs.
    """
    dtype = {"float16": torch.float16}.get(workload.dtype, torch.float32)
    shape = (workload.batch, workload.in_channels, workload.in_height, workload.in_width)
    options = {"device": "cuda", "dtype": dtype}
    data = torch.randn(shape, **options).to(memory_format=torch.channels_last)
    kernel = (workload.out_channels, workload.group_channels, *workload.kernel)
    weight = torch.randn(kernel, **options).to(memory_format=torch.channels_last)
    top, left, bottom, right = workload.padding
    if (top, left) != (bottom, right):
        data = torch.nn.functional.pad(data, (left, right, top, bottom))
        top = left = 0
    step, reach = workload.strides, workload.dilation

    def run() -> Any:
        with torch.inference_mode():
            return torch.nn.functional.conv2d(data, weight, None, step, (top, left), reach, workload.groups)

    return run
