"""Checks the result of a kernel against that of a direct convolution with default knobs."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import tvm

from topi_ext.codegen.bfloat16 import BITS
from topi_ext.indexing import physical_axes
from topi_ext.kernel import kernel_arguments
from topi_ext.knobs import Knobs, WinogradKnobs
from topi_ext.machine.processor import Processor
from topi_ext.spaces.convolution import cheapest
from topi_ext.tune.measuring.library import ENTRY
from topi_ext.tune.records.record import WRONG
from topi_ext.weights import winograd_weight
from topi_ext.workloads.convolution import ConvolutionWorkload

DIRECT_TOLERANCE = 1e-5
WINOGRAD_TOLERANCE = 1e-4
"""Largest differences of float32 results that rounding explains, relative to the largest result.

Sums in another order differ by about 1e-6 after some thousand terms, F(4x4, 3x3) by 2e-6 after 256 channels.
"""

_FLOAT32 = float(np.finfo(np.float32).eps)

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Kernel:
    """A kernel that was built: where, and with which knobs."""

    path: str
    knobs: Knobs


def reference_knobs(workload: ConvolutionWorkload, processor: Processor) -> Knobs:
    """The knobs of the reference kernel: the cheapest direct one by estimate."""
    return cheapest(workload, processor, winograd=False)[1]


def tolerance(workload: ConvolutionWorkload, knobs: Knobs) -> float:
    """The allowed difference from the reference, relative to its largest value; 0 for integers."""
    if not is_float(workload.out_dtype):
        return 0.0
    rounding = {"float16": 2.0**-10, "float64": 2.0**-52}.get(workload.out_dtype, _FLOAT32)
    base = WINOGRAD_TOLERANCE if isinstance(knobs, WinogradKnobs) else DIRECT_TOLERANCE
    return base * rounding / _FLOAT32


def is_float(dtype: str) -> bool:
    """Is it a floating-point type?"""
    return "float" in dtype


def sample(workload: ConvolutionWorkload, knobs: Knobs, reference: Knobs) -> tuple[list[Array], list[Array]]:
    """Random inputs (data, weight, bias) for a kernel and, in its layout, for the direct reference kernel."""
    random = np.random.default_rng(0)
    inputs = [_random(random, shape, dtype) for shape, dtype in kernel_arguments(workload, reference)[:-1]]
    if not isinstance(knobs, WinogradKnobs):
        return inputs, inputs
    data, weight, bias = inputs
    plain = _plain(weight, workload.kernel_layout)
    moved = winograd_weight(plain, workload, knobs)
    return [data, moved, bias], inputs


def difference(workload: ConvolutionWorkload, kernel: Kernel, reference: Kernel) -> float:
    """The largest difference of both results, relative to the reference's largest; infinite if not a number.

    Runs both here, in this process.
    """
    ours, theirs = sample(workload, kernel.knobs, reference.knobs)
    result = kernel_arguments(workload, reference.knobs)[-1]
    found, expected = _run(kernel.path, ours, *result), _run(reference.path, theirs, *result)
    apart = np.abs(found.astype(np.float64) - expected.astype(np.float64)).max()
    largest = np.abs(expected.astype(np.float64)).max()
    return float(apart / largest) if largest and np.isfinite(apart) else float("inf" if apart else 0.0)


def tolerance_error(error: float, allowed: float) -> str:
    """A message for a relative ``error`` that exceeds what is ``allowed``; empty if it does not."""
    if error <= allowed:
        return ""
    return f"{WRONG}differs by {error:.1e} of the largest, {allowed:.0e} are allowed"


def _run(path: str, inputs: Sequence[Array], shape: Sequence[int], dtype: str) -> Array:
    # Elements that a kernel fails to write must not be right by chance.
    result = tvm.runtime.tensor(np.full(shape, 77, dtype))
    tvm.runtime.load_module(path)[ENTRY](*map(tvm.runtime.tensor, inputs), result)
    found: Array = result.numpy()
    return found


def _random(random: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    if dtype == BITS:
        return random.standard_normal(shape).astype(ml_dtypes.bfloat16).view(BITS)
    if is_float(dtype):
        return random.standard_normal(shape).astype(dtype)
    return random.integers(0 if dtype.startswith("uint") else -8, 8, shape).astype(dtype)


def _plain(weight: Array, layout: str) -> Array:
    """Weights as OIHW, or as OIDHW."""
    names = [name for name, _ in physical_axes(layout)]
    axes = [axis for axis in "OIDHW" if axis in names]
    places = [[place for place, name in enumerate(names) if name == axis] for axis in axes]
    moved = weight.transpose([place for group in places for place in group])
    return moved.reshape([prod(weight.shape[place] for place in group) for group in places])
