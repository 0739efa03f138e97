"""The features of every kind of workload and kernel, by the class of the workload."""

from collections.abc import Callable
from typing import Any, NamedTuple

from topi_ext.cuda.workload import DepthwiseConvolution, GemmConvolution
from topi_ext.family import Machine, Workload
from topi_ext.tune.models.depthwise_features import depthwise_features, thread_features
from topi_ext.tune.models.features import Features, knob_features, workload_features
from topi_ext.tune.models.product_features import convolution_features, product_features
from topi_ext.workloads.convolution import ConvolutionWorkload


class FeatureFunctions(NamedTuple):
    """The functions that compute the features of one kind of kernels."""

    of_workload: Callable[[Any], Features]
    of_knobs: Callable[[Any, Any, Any, float], Features]
    """The features of a workload, its machine, knobs, and the cycles that are estimated for them."""


_TABLE: dict[type[Workload], FeatureFunctions] = {
    ConvolutionWorkload: FeatureFunctions(
        workload_features,
        lambda workload, processor, knobs, cycles: knob_features(
            workload, processor, knobs.to_dict(), cycles
        ),
    ),
    GemmConvolution: FeatureFunctions(product_features, convolution_features),
    DepthwiseConvolution: FeatureFunctions(depthwise_features, thread_features),
}


def _functions(workload: Workload) -> FeatureFunctions:
    return next(_TABLE[kind] for kind in type(workload).__mro__ if kind in _TABLE)


def features_of_workload(workload: Workload) -> Features:
    """The features that all kernels of a workload share."""
    return _functions(workload).of_workload(workload)


def features_of_knobs(workload: Workload, machine: Machine, knobs: Any, cycles: float) -> Features:
    """The features of knobs on a machine; ``cycles`` is the estimate for them."""
    return _functions(workload).of_knobs(workload, machine, knobs, cycles)
