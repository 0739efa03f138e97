"""Families of kernels with knobs: one interface for choosers and tuners, whatever the workload and
machine.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from topi_ext.cuda import depthwise_space, gemm_space, winograd_space
from topi_ext.cuda.depthwise_knobs import DepthwiseKnobs, check_depthwise
from topi_ext.cuda.gemm_knobs import GemmKnobs, check
from topi_ext.cuda.kernel_knobs import KernelKnobs
from topi_ext.cuda.multiprocessor import Multiprocessor
from topi_ext.cuda.winograd_knobs import WinogradGemmKnobs, check_winograd
from topi_ext.cuda.workload import DepthwiseConvolution, GemmConvolution
from topi_ext.knobs import knobs_from_dict
from topi_ext.machine.processor import Processor
from topi_ext.spaces.convolution import cheapest, estimated_cycles, knob_space
from topi_ext.workloads.convolution import ConvolutionWorkload

Workload = ConvolutionWorkload | GemmConvolution | DepthwiseConvolution
"""What a kernel with knobs computes: :class:`ConvolutionWorkload` on CPUs, the other two on GPUs."""


Machine = Processor | Multiprocessor
"""What kernels run on. Records are kept under its ``name``; ``threads`` are the host threads of one
kernel."""

Estimated = tuple[float, Any]
"""Estimated cycles, summed over all threads, and the knobs that they are of."""

_EstimatedUs = tuple[float, Any]
"""The same in microseconds, as the models of GPUs estimate."""


@dataclass(frozen=True)
class Family:
    """One kind of kernels, as functions of a workload and of the machine that it runs on."""

    knob_space: Callable[[Any, Any], Iterator[Estimated]]
    """All knobs worth trying for a workload on a machine."""

    cheapest: Callable[[Any, Any, bool], Estimated]
    """The knobs with the lowest estimate. If the last argument is false, only knobs that round like the
    direct convolution are considered."""

    knobs_from_dict: Callable[[Any, Any, Mapping[str, Any]], Any]
    """The knobs that ``to_dict`` of knobs wrote; RelayLayoutError for knobs that do not fit the workload."""

    estimate: Callable[[Any, Any, Any], float | None]
    """The estimated cycles of knobs; None for knobs that are not in the space."""


def _convolution_knobs(workload: ConvolutionWorkload, machine: Machine, fields: Mapping[str, Any]) -> Any:
    return knobs_from_dict(workload, fields)


Check = Callable[[Any, Any, Multiprocessor], None]
"""Raises RelayLayoutError for knobs that do not fit a workload and a multiprocessor."""

Estimate = Callable[[Any, Any, Multiprocessor], float]
"""Microseconds of knobs that fit."""


def _on_gpu(
    knob_space: Callable[[Any, Multiprocessor], Iterator[_EstimatedUs]],
    cheapest: Callable[[Any, Multiprocessor, bool], _EstimatedUs],
    *kinds: tuple[type[KernelKnobs], Check, Estimate],
) -> Family:
    """The family of GPU kernels, whose models give microseconds; each of ``kinds`` has its own algorithm."""

    def knobs_by_cycles(workload: Any, machine: Multiprocessor) -> Iterator[Estimated]:
        for microseconds, knobs in knob_space(workload, machine):
            yield microseconds * machine.gigahertz * 1e3, knobs

    def cheapest_by_cycles(workload: Any, machine: Multiprocessor, winograd: bool) -> Estimated:
        microseconds, knobs = cheapest(workload, machine, winograd)
        return microseconds * machine.gigahertz * 1e3, knobs

    def fitting(workload: Any, machine: Multiprocessor, fields: Mapping[str, Any]) -> KernelKnobs:
        named = [found for found in kinds if fields.get("algorithm") == found[0].ALGORITHM]
        kind, check, _ = (named or kinds)[0]
        knobs = kind.from_dict(fields)
        check(workload, knobs, machine)
        return knobs

    estimates = {kind: estimate for kind, _, estimate in kinds}

    def estimated(workload: Any, machine: Multiprocessor, knobs: KernelKnobs) -> float:
        return estimates[type(knobs)](workload, knobs, machine) * machine.gigahertz * 1e3

    return Family(knobs_by_cycles, cheapest_by_cycles, fitting, estimated)


def _product_knobs(workload: GemmConvolution, machine: Multiprocessor) -> Iterator[_EstimatedUs]:
    yield from gemm_space.gemm_knobs(workload, machine)
    yield from winograd_space.winograd_knobs(workload, machine)


def _cheapest_product(workload: GemmConvolution, machine: Multiprocessor, winograd: bool) -> _EstimatedUs:
    direct: _EstimatedUs = gemm_space.cheapest_gemm(workload, machine)
    other = winograd_space.cheapest_winograd(workload, machine) if winograd else None
    return direct if other is None or direct[0] <= other[0] else other


def _cheapest_depthwise(
    workload: DepthwiseConvolution, machine: Multiprocessor, winograd: bool
) -> _EstimatedUs:
    return depthwise_space.cheapest_depthwise(workload, machine)


_CONVOLUTIONS = Family(knob_space, cheapest, _convolution_knobs, estimated_cycles)
_PRODUCTS = _on_gpu(
    _product_knobs,
    _cheapest_product,
    (GemmKnobs, check, gemm_space.gemm_us),
    (WinogradGemmKnobs, check_winograd, winograd_space.winograd_us),
)
_DEPTHWISE = _on_gpu(
    depthwise_space.depthwise_knobs,
    _cheapest_depthwise,
    (DepthwiseKnobs, check_depthwise, depthwise_space.depthwise_us),
)

_FAMILIES: dict[type[Workload], Family] = {
    ConvolutionWorkload: _CONVOLUTIONS,
    GemmConvolution: _PRODUCTS,
    DepthwiseConvolution: _DEPTHWISE,
}


def family_of(workload: Workload) -> Family:
    """The family of the kernels that compute a workload."""
    return next(_FAMILIES[kind] for kind in type(workload).__mro__ if kind in _FAMILIES)
